"""How fast trio_stomp is, next to other clients and to a bare loop, over the same bytes: ``make bench``."""
