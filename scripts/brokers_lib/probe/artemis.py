"""All statements about ActiveMQ Artemis, in the order of the manual."""

from brokers_lib.probe import (
    artemis_connecting,
    artemis_delivery,
    artemis_features,
    artemis_frames,
    artemis_lifecycle,
    artemis_transports,
)

STATEMENTS = [
    *artemis_connecting.connecting.statements,
    *artemis_connecting.beating.statements,
    *artemis_frames.frames.statements,
    *artemis_delivery.delivery.statements,
    *artemis_lifecycle.lifecycle.statements,
    *artemis_features.features.statements,
    *artemis_transports.transports.statements,
]
