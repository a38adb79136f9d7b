"""The private brokers of the interop tests: RabbitMQ, ActiveMQ Classic and ActiveMQ Artemis on loopback."""
