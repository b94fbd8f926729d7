"""Whatever arrives on a socket becomes frames or a ProtocolError, and nothing else."""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.errors import ProtocolError, TooLarge
from gsched.protocol import frames
from gsched.protocol.hello import Hello
from gsched.protocol.link import AgentMessage, ControllerMessage
from gsched.protocol.messages import Ping, UserReply, UserRequest
from gsched.protocol.stream import StreamReply, StreamRequest

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(st.characters(codec="utf-8"), max_size=20)
    | st.binary(max_size=20)
    | st.sampled_from(["job.submit", "job.list", "agent.hello", "type", "\udcff"]),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(["type", "jobs", "spec", "user", "\udcff"]) | st.text(max_size=5), inner)
    ),
    max_leaves=20,
)


def _wrap(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


@given(st.lists(st.binary(max_size=60)))
def test_any_bytes_give_frames_or_a_protocol_error(pieces: list[bytes]) -> None:
    decoder = frames.Decoder(max_frame=1000)
    try:
        for piece in pieces:
            for frame in decoder.feed(piece):
                assert isinstance(frame, frames.Frame)
    except ProtocolError:
        pass


@given(st.binary(max_size=200))
def test_any_body_of_the_announced_length_gives_a_frame_or_a_protocol_error(body: bytes) -> None:
    try:
        got = list(frames.Decoder().feed(_wrap(body)))
        assert len(got) == 1
    except ProtocolError:
        pass


@given(st.sampled_from([UserRequest, UserReply, AgentMessage, ControllerMessage, StreamRequest, StreamReply]), plain)
def test_any_body_is_a_message_or_a_protocol_error(expected: Any, body: Any) -> None:
    try:
        message = frames.check_body(body, expected)
    except ProtocolError:
        return
    assert message.__struct_config__.tag


@given(st.integers(0, 3), st.integers(0, 2**31), plain.filter(lambda v: v == v), st.lists(st.integers(1, 40)))
def test_a_frame_comes_back_whole_however_it_was_cut(kind: int, id: int, body: Any, cuts: list[int]) -> None:
    packed = _wrap(msgpack.packb([kind, id, body], unicode_errors="surrogateescape")) * 2
    decoder = frames.Decoder()
    got: list[frames.Frame] = []
    start = 0
    for cut in [*cuts, len(packed)]:
        got += decoder.feed(packed[start : start + cut])
        start += cut
    assert [(f.kind, f.id) for f in got] == [(kind, id)] * 2
    assert repr(got[0].body) == repr(got[1].body)


def test_a_reader_may_stop_between_two_frames_and_go_on() -> None:
    decoder = frames.Decoder()
    packed = b"".join(frames.encode(frames.REQUEST, id, Ping()) for id in (1, 2, 3))
    for frame in decoder.feed(packed):
        assert frame.id == 1
        break
    decoder.keep(frames.encode(frames.REQUEST, 4, Ping()))
    assert [frame.id for frame in decoder.feed(b"")] == [2, 3, 4]


def test_an_oversized_frame_is_refused_before_it_arrives() -> None:
    with pytest.raises(ProtocolError, match="at most 8388608"):
        list(frames.Decoder().feed(struct.pack(">I", frames.MAX_FRAME + 1)))


def test_an_oversized_message_is_not_sent() -> None:
    with pytest.raises(TooLarge, match="at most 8388608"):
        frames.encode(frames.REQUEST, 1, Hello(software="x" * frames.MAX_FRAME))


def test_names_that_are_not_utf8_come_back_as_the_same_bytes() -> None:
    name = b"caf\xe9".decode(errors="surrogateescape")
    (frame,) = frames.Decoder().feed(frames.encode(frames.PUSH, 0, Hello(software=name)))
    assert frame.body["software"] == name
