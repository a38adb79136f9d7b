"""All statements about ActiveMQ Classic that a client depends on."""

from brokers_lib.probe import activemq_delivery, activemq_wire

STATEMENTS = [*activemq_wire.wire.statements, *activemq_delivery.work.statements]
