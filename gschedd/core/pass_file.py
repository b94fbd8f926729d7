"""One pass on file: its whole input and the plan it gave, so that anyone can work it out again and compare.

The file is msgpack: a head that every version can read, and in it, deflated, the input and the plan.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from gsched import __version__
from gsched.errors import BadRequest, ProtocolError
from gsched.protocol.frames import pack_body, unpack_body
from gschedd.core.inputs import ClaimInput, PassInput, Plan, PlannedStart, Preemption, Start
from gschedd.core.waits import Wait

FORMAT: Final = "gsched pass"
VERSION: Final = 1
_LEVEL: Final = 6  # of deflating
_MOST: Final = 4 << 30  # bytes, inflated: more is not ours


class PlanRecord(Struct, frozen=True):
    """A plan as plain values; waits in the order of job ids."""

    starts: tuple[Start, ...]
    planned: tuple[PlannedStart, ...]
    waits: tuple[Wait, ...]
    preemptions: tuple[Preemption, ...]
    claims: tuple[ClaimInput, ...]


class PassRecord(Struct, frozen=True):
    given: PassInput
    plan: PlanRecord


class PassFile(Struct, frozen=True):
    format: str
    version: int
    software: str  # of the gschedd that wrote it
    packed: bytes  # a PassRecord


def record_of(plan: Plan) -> PlanRecord:
    return PlanRecord(
        starts=tuple(plan.starts),
        planned=tuple(plan.planned),
        waits=tuple(sorted(plan.waits, key=lambda wait: wait.job)),
        preemptions=tuple(plan.preemptions),
        claims=tuple(plan.claims),
    )


def pack(given: PassInput, plan: Plan) -> bytes:
    """The file's content."""
    body = zlib.compress(pack_body(PassRecord(given, record_of(plan))), _LEVEL)
    return pack_body(PassFile(FORMAT, VERSION, __version__, body))


def unpack(content: bytes) -> PassRecord:
    """What `pack` wrote. Raises BadRequest for anything else, and for another version."""
    try:
        file: PassFile = msgspec.msgpack.decode(content, type=PassFile)
    except msgspec.DecodeError:
        raise BadRequest("not a pass of gsched: expected a file that `gctl snapshot` wrote") from None
    if file.format != FORMAT:
        raise BadRequest(f"not a pass of gsched but {file.format!r}: expected a file that `gctl snapshot` wrote")
    if file.version != VERSION:
        raise BadRequest(f"a pass of version {file.version}, written by {file.software}; this gsim reads {VERSION}")
    try:
        inflater = zlib.decompressobj()
        body = inflater.decompress(file.packed, _MOST)
        record: PassRecord = unpack_body(body, PassRecord)
    except (zlib.error, ProtocolError) as error:
        raise BadRequest(f"the pass is damaged: {error}") from None
    return record


def differences(expected: PlanRecord, found: PlanRecord) -> Iterator[str]:
    """One line for each thing that is not the same; nothing if the plans are equal bit for bit."""
    for what in PlanRecord.__struct_fields__:
        yield from _differences(what, getattr(expected, what), getattr(found, what))


def _differences(what: str, expected: Iterable[Any], found: Iterable[Any]) -> Iterator[str]:
    """Any: values of one kind."""
    before = {_key(value): value for value in expected}
    after = {_key(value): value for value in found}
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old != new:
            yield f"{what} of {key}: {_text(old)} in the file, {_text(new)} now"
    if list(before) != list(after) and before.keys() == after.keys():
        yield f"{what}: in another order"


def _key(value: Any) -> str:
    return f"run {value.victim}" if isinstance(value, Preemption) else f"job {value.job}"


def _text(value: Any) -> str:
    return "nothing" if value is None else msgspec.json.encode(value).decode()
