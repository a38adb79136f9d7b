from trio_stomp.brokers import ARTEMIS
from trio_stomp.cli.doctor_target import Target
from trio_stomp.cli.link_options import LinkOptions
from trio_stomp.client import Endpoint
from trio_stomp.protocol import HeartBeatOffer, Version


def options(
    *,
    login: str | None = None,
    vhost: str | None = None,
    heart_beat: tuple[float, float] | None = None,
    stomp_version: tuple[str, ...] = (),
    profile: str | None = None,
) -> LinkOptions:
    return LinkOptions(
        url=("stomp://host",),
        login=login,
        passcode_file=None,
        ask_passcode=False,
        vhost=vhost,
        ca=None,
        cert=None,
        key=None,
        heart_beat=heart_beat,
        stomp_version=stomp_version,
        profile=profile,
        connect_timeout=3.0,
        connect_header=(("client-id", "me"),),
        proxy=None,
        websocket_message_octets=None,
        reconnect=False,
    )


def test_target_when_the_url_says_all_then_read_from_it() -> None:
    target = Target.of(Endpoint.parse("stomps://ann:s3cret%3Ax@[::1]:1234/%2Ftest"), options(), None)

    assert (target.host, target.port, target.tls, target.address) == ("::1", 1234, True, "[::1]:1234")
    assert (target.login, target.passcode, target.vhost, target.host_header) == ("ann", "s3cret:x", "/test", "/test")
    assert (target.timeout, target.headers) == (3.0, (("client-id", "me"),))
    assert "s3cret" not in repr(target)


def test_target_when_options_say_more_then_before_the_url() -> None:
    given = options(login="bob", vhost="v", heart_beat=(2.0, 0.0), stomp_version=("1.1",), profile="artemis")

    target = Target.of(Endpoint.parse("stomp://ann:x@host/test"), given, "y")

    assert (target.login, target.passcode, target.vhost, target.port) == ("bob", "y", "v", 61613)
    assert target.offer == HeartBeatOffer(can_ms=2000, want_ms=0)
    assert target.versions == (Version.V1_1,)
    assert target.profile is ARTEMIS


def test_target_when_nothing_is_said_then_the_default() -> None:
    target = Target.of(Endpoint.parse("stomp://host"), options(), None)

    assert (target.login, target.passcode, target.vhost, target.host_header) == (None, None, None, "/")
