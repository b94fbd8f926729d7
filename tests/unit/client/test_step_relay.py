"""What grun does with output and ends: offsets, labels, the exit status."""

from __future__ import annotations

import pytest

from gsched.client.step_relay import LONGEST_LINE, STDERR, STDOUT, Piece, Relay
from gsched.errors import ProtocolError
from gsched.protocol.stream import Output, TaskEnded


def test_output_goes_on_as_it_comes_to_its_own_descriptor() -> None:
    relay = Relay(2)
    assert relay.output(Output(0, False, 0, b"half a li")) == [Piece(STDOUT, b"half a li")]
    assert relay.output(Output(1, True, 0, b"oh")) == [Piece(STDERR, b"oh")]


def test_what_came_before_a_break_is_not_shown_twice() -> None:
    relay = Relay(1)
    relay.output(Output(0, False, 0, b"abc"))
    assert relay.offsets(range(1)) == {"0.out": 3}
    assert relay.output(Output(0, False, 1, b"bcde")) == [Piece(STDOUT, b"de")]
    assert relay.output(Output(0, False, 0, b"abc")) == []
    assert relay.offsets(range(1)) == {"0.out": 5}


def test_missing_bytes_are_an_error() -> None:
    with pytest.raises(ProtocolError, match="task 0 is missing: bytes 0 to 7"):
        Relay(1).output(Output(0, False, 7, b"x"))


def test_labelled_lines_are_kept_whole_and_as_wide_as_the_highest_rank() -> None:
    relay = Relay(11, label=True)
    assert relay.output(Output(3, False, 0, b"a\nb")) == [Piece(STDOUT, b" 3: a\n")]
    assert relay.output(Output(10, False, 0, b"x\n\n")) == [Piece(STDOUT, b"10: x\n10: \n")]
    assert relay.output(Output(3, False, 3, b"c\n")) == [Piece(STDOUT, b" 3: bc\n")]


def test_a_last_line_without_an_end_is_shown_when_its_task_ends() -> None:
    relay = Relay(2, label=True)
    assert relay.output(Output(1, True, 0, b"bye")) == []
    assert relay.ended(TaskEnded(1, 0, 0)) == [Piece(STDERR, b"1: bye\n")]


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    relay = Relay(1, label=True)
    (piece,) = relay.output(Output(0, False, 0, b"x" * (LONGEST_LINE + 1)))
    assert piece.data == b"0: " + b"x" * (LONGEST_LINE + 1) + b"\n"


@pytest.mark.parametrize(
    ("ends", "status"),
    [([(0, 0), (0, 0)], 0), ([(3, 0), (1, 0)], 3), ([(0, 9), (7, 0)], 137), ([(0, 15), (255, 0)], 255)],
)
def test_the_exit_status_is_the_highest(ends: list[tuple[int, int]], status: int) -> None:
    relay = Relay(len(ends))
    for rank, (code, signal) in enumerate(ends):
        relay.ended(TaskEnded(rank, code, signal))
    assert relay.worst == status
