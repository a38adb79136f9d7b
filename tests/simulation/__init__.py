"""A seeded simulation: programs, client, network and broker in one process, in virtual time.

One seed is one run: it chooses the order in which tasks run, the network's delays and faults, the broker, and what the
programs do. The same seed gives the same run, byte for byte.
"""
