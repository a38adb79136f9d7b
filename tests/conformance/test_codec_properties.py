"""What holds for every input: the codec against random frames, random bytes, random cuts."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.conformance.streams import (
    Settings,
    chunks_of,
    chunks_with,
    decoders,
    frame_like_bytes,
    frames_of,
    header_text,
    read_all,
    sender_of,
)
from trio_stomp import AckMode, Limits
from trio_stomp.errors import LimitExceeded, LocalProtocolError, RemoteProtocolError
from trio_stomp.protocol import (
    ClientEvent,
    ClientProtocol,
    Decoder,
    DraftClientProtocol,
    DraftDecoder,
    DraftServerProtocol,
    MessagesReceived,
    ReceiptsReceived,
    Role,
    ServerProtocol,
    State,
    Tolerances,
    Violation,
    encode_frame,
)
from trio_stomp.types import Command, Frame, Version

pytestmark = pytest.mark.slow

# The machine that runs these may be busy: how long an example takes says nothing.
settings.register_profile("conformance", deadline=None, max_examples=300)
THOROUGH = settings(settings.get_profile("conformance"))
EACH_VERSION = pytest.mark.parametrize("version", list(Version))
EACH_ROLE = pytest.mark.parametrize("role", list(Role))


# --- encoding and decoding --------------------------------------------------------------------------------------------


@EACH_VERSION
@EACH_ROLE
@settings(THOROUGH, max_examples=60)
@given(data=st.data())
def test_frames_when_encoded_and_decoded_then_are_the_same(version: Version, role: Role, data: st.DataObject) -> None:
    """Rows all-FRM-1, all-FRM-2, 1x-ENC-1, 1x-HDR-ESC-6."""
    frames = data.draw(st.lists(frames_of(version, role), max_size=4))
    between = data.draw(st.sampled_from([b"", b"\n", b"\n\n"]))
    stream = b"".join(
        encode_frame(frame.command, frame.headers.pairs, frame.body, version=version) + between for frame in frames
    )

    came = read_all(Decoder(role=role, version=version), data.draw(chunks_with(stream)))

    assert came.frames == frames
    assert came.kind is None
    assert not came.pending
    assert came.heartbeats == len(between) * len(frames)


@EACH_VERSION
@settings(THOROUGH, max_examples=600)
@given(
    command=st.sampled_from(Command),
    pairs=st.lists(st.tuples(header_text(), header_text()), max_size=4),
    body=st.binary(max_size=4),
    escape_in_1_0=st.booleans(),
)
def test_frame_when_encoded_without_the_accelerator_then_is_the_same_or_refused_alike(
    version: Version, command: Command, pairs: list[tuple[str, str]], body: bytes, *, escape_in_1_0: bool
) -> None:
    def encoded(*, accelerate: bool) -> bytes | str:
        try:
            return encode_frame(
                command, pairs, body, version=version, escape_in_1_0=escape_in_1_0, accelerate=accelerate
            )
        except LocalProtocolError as error:
            return str(error)

    assert encoded(accelerate=True) == encoded(accelerate=False)


@settings(THOROUGH, max_examples=600)
@given(
    pairs=st.lists(
        st.tuples(st.text("a1-X_:", max_size=3), header_text() | st.text(" a:\\\t\x7f", max_size=3)), max_size=2
    ),
    body=st.binary(max_size=4),
    data=st.data(),
)
def test_draft_when_it_carries_headers_then_they_are_read_as_they_were_given(
    pairs: list[tuple[str, str]], body: bytes, data: st.DataObject
) -> None:
    """Rows draft-LEN-5, draft-LEN-6, draft-LEN-8."""
    protocol = DraftClientProtocol()
    stream = protocol.connect(host="h")
    protocol.receive_data(b"CONNECTED\n\n\0")
    try:
        stream += protocol.send("/q", body, headers=pairs)
    except LocalProtocolError:
        return

    _, came = read_all(DraftDecoder(role=Role.SERVER), data.draw(chunks_with(stream))).frames

    assert came.headers.pairs == (("destination", "/q"), *pairs, ("content-length", str(len(body))))
    assert came.body == body


@EACH_VERSION
@settings(THOROUGH, max_examples=600)
@given(
    command=st.sampled_from(Command),
    pairs=st.lists(st.tuples(header_text(), header_text()), max_size=4),
    body=st.binary(max_size=4),
)
@example(command=Command.SEND, pairs=[("a", "b\n\n\0SEND\ndestination:/q")], body=b"")
@example(command=Command.CONNECT, pairs=[("a", "b\n\n\0SEND\ndestination:/q")], body=b"")
@example(command=Command.SEND, pairs=[("a\nb", "c")], body=b"")
@example(command=Command.CONNECT, pairs=[("a\nb", "c")], body=b"")
@example(command=Command.SEND, pairs=[("a", "b\r")], body=b"")
@example(command=Command.CONNECT, pairs=[("a", "b\r")], body=b"")
def test_header_text_when_it_tries_to_add_lines_or_frames_then_cannot(
    version: Version, command: Command, pairs: list[tuple[str, str]], body: bytes
) -> None:
    """Rows all-HDR-ESC-11, 1x-HDR-PAD-2."""
    try:
        octets = encode_frame(command, pairs, body, version=version)
    except LocalProtocolError:
        return
    decoder = Decoder(role=sender_of(command).peer, version=version)

    (frame,) = decoder.receive_data(octets)

    sent = [*pairs]
    if body and "content-length" not in dict(pairs):
        sent.append(("content-length", str(len(body))))
    if version is Version.V1_0:
        # 1.0 trims the spaces around values; nothing else may change.
        sent = [(name, value.strip(" ")) for name, value in sent]
    assert list(frame.headers.pairs) == sent
    assert (frame.command, frame.body) == (command, body)
    assert decoder.error is None
    assert not decoder.pending


# --- decoding anything ------------------------------------------------------------------------------------------------


@settings(THOROUGH, max_examples=1500)
@given(kind=decoders(), stream=frame_like_bytes(), data=st.data())
def test_stream_when_cut_anywhere_then_gives_the_same_frames_and_the_same_error(
    kind: Settings, stream: bytes, data: st.DataObject
) -> None:
    """Row all-FRM-1."""
    whole = read_all(kind.decoder(), [stream])

    assert read_all(kind.decoder(), chunks_of(stream, 1)) == whole
    assert read_all(kind.decoder(), data.draw(chunks_with(stream))) == whole


@settings(THOROUGH, max_examples=1500)
@given(kind=decoders(), stream=frame_like_bytes(), data=st.data())
def test_stream_when_decoded_without_the_accelerator_then_gives_the_same(
    kind: Settings, stream: bytes, data: st.DataObject
) -> None:
    chunks = data.draw(chunks_with(stream))
    plain, quick = kind.decoder(accelerate=False), kind.decoder()

    assert read_all(plain, chunks) == read_all(quick, chunks)
    assert str(plain.error) == str(quick.error)
    assert plain.error is None or type(plain.error) in {RemoteProtocolError, LimitExceeded}


@THOROUGH
@given(kind=decoders(), stream=frame_like_bytes(), more=st.binary())
def test_decoder_when_it_has_failed_then_delivers_nothing_more(kind: Settings, stream: bytes, more: bytes) -> None:
    decoder = kind.decoder()
    read_all(decoder, [stream])

    if decoder.error is not None:
        assert decoder.receive_data(more) == []
        assert not decoder.pending


@settings(THOROUGH, max_examples=1000)
@given(
    stream=frame_like_bytes(),
    answered=st.sampled_from(
        [b"", b"CONNECTED\nversion:1.2\n\n\0", b"CONNECTED\nversion:1.1\n\n\0", b"CONNECTED\n\n\0"]
    ),
    limits=st.just(Limits()) | st.just(Limits(header_count=2, header_line_bytes=30, body_bytes=5)),
    tolerances=st.just(Tolerances())
    | st.just(
        Tolerances(errors_leave_open=True, invalid_utf8=True, nul_in_message_headers=True, empty_header_names=True)
    ),
    draft=st.booleans(),
    data=st.data(),
)
def test_client_when_it_receives_anything_then_reports_it_the_same_however_cut(
    stream: bytes, answered: bytes, limits: Limits, tolerances: Tolerances, draft: bool, data: st.DataObject
) -> None:
    def opened(*, accelerate: bool) -> ClientProtocol:
        if draft:
            return DraftClientProtocol(limits=limits, tolerances_for=lambda _server: tolerances)
        return ClientProtocol(limits=limits, tolerances_for=lambda _server: tolerances, accelerate=accelerate)

    def events(chunks: list[bytes], *, accelerate: bool = True) -> list[object]:
        protocol = opened(accelerate=accelerate)
        protocol.connect(host="h")
        came = protocol.receive_data(answered)
        if protocol.state is State.CONNECTED:
            protocol.subscribe("1", "/q", AckMode.CLIENT)
        came += [event for chunk in chunks for event in protocol.receive_data(chunk)]
        assert not any(isinstance(event, Violation) for event in came[:-1])
        return [told for event in came for told in one_by_one(event)]

    def one_by_one(event: ClientEvent) -> list[object]:
        # How many frames are one event depends on the chunks; what they are does not.
        if isinstance(event, MessagesReceived):
            return [(event.subscription_id, frame) for frame in event.frames]
        if isinstance(event, ReceiptsReceived):
            return [*event.receipt_ids]
        return [type(event.error) if isinstance(event, Violation) else event]

    def or_withdrawn(told: list[object]) -> list[list[object]]:
        # A message without content-length, right before a fault, may be the part before a NUL. It is withdrawn, where
        # it has not been reported before the fault came.
        match told:
            case [*before, (str(), Frame(headers=headers)), error] if (
                error is RemoteProtocolError and "content-length" not in headers
            ):
                return [told, [*before, error]]
            case _:
                return [told]

    slowest = or_withdrawn(events(chunks_of(stream, 1)))
    assert events([stream]) in slowest
    chunks = data.draw(chunks_with(stream))
    assert events(chunks) in slowest
    assert events(chunks, accelerate=False) == events(chunks)


@settings(THOROUGH, max_examples=1000)
@given(
    stream=frame_like_bytes(),
    asked=st.sampled_from([b"", b"CONNECT\naccept-version:1.2\nhost:h\n\n\0", b"CONNECT\n\n\0"]),
    draft=st.booleans(),
    data=st.data(),
)
def test_server_when_it_receives_anything_then_reports_it_the_same_however_cut(
    stream: bytes, asked: bytes, draft: bool, data: st.DataObject
) -> None:
    def events(chunks: list[bytes]) -> list[object]:
        protocol = DraftServerProtocol() if draft else ServerProtocol()
        came: list[object] = []
        for chunk in [asked, *chunks]:
            more = protocol.receive_data(chunk)
            while more:
                came += [(type(event.error), event.frame) if isinstance(event, Violation) else event for event in more]
                if protocol.state is State.CONNECTING and not isinstance(more[-1], Violation):
                    protocol.send_frame(Command.CONNECTED, [("version", protocol.version.value)])
                more = protocol.receive_data(b"")
        return came

    assert events(data.draw(chunks_with(stream))) == events([stream]) == events(chunks_of(stream, 1))


@EACH_VERSION
@EACH_ROLE
@settings(THOROUGH, max_examples=30)
@given(data=st.data())
def test_frames_when_a_fault_follows_then_all_before_it_are_delivered(
    version: Version, role: Role, data: st.DataObject
) -> None:
    """Row all-FRM-20."""
    frames: list[Frame] = data.draw(st.lists(frames_of(version, role), max_size=3))
    stream = b"".join(encode_frame(one.command, one.headers.pairs, one.body, version=version) for one in frames)

    came = read_all(Decoder(role=role, version=version), data.draw(chunks_with(stream + b"\0" + stream)))

    assert came.frames == frames
    assert came.kind is RemoteProtocolError
