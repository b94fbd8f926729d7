"""What a run keeps on disk, in its directory SPOOL/runs/JOB.RUN. The agent reads and makes the same files.

    launch        made by the agent: all that the supervisor must know, as JSON
    record        the run's state; fixed size, made at launch, locked by the supervisor for its life
    script        the user's script (for another user's run it is in a directory of that user's instead)
    sock          the supervisor listens here
    log           what a supervisor had to say before it died of a bug
    steps/STEP/   open (the request, JSON), ends (a line of fixed size a task), record, RANK.out, RANK.err

The record has two slots which are written in turn, so a write that was cut off leaves the one before. Its size is
allocated when it is made: a full disk cannot lose an exit status.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from typing import Any, Final

SLOT: Final = 8192  # bytes; one state of a run as JSON with a checksum
TEXT_MAX: Final = 400  # characters of free text in a record: at most 12 bytes each, so a slot holds it
END_SIZE: Final = 32  # bytes; one task's line in `ends`

ANOTHERS: Final = b"*"  # to the template: before the directory of a run whose user is not the agent's
compact: Final = json.JSONEncoder(separators=(",", ":")).encode  # made once: json.dumps would make one each time

# The phases of a record, as words that gsched.values.run.NodePhase knows, and "failed".
ORDERED: Final = "ordered"
READY: Final = "ready"
OPEN: Final = "open"
EXITED: Final = "exited"
CLEAN: Final = "clean"
FAILED: Final = "failed"


def create_record(path: str) -> None:
    """Make an empty record file with all its blocks allocated. Raises OSError, FileExistsError among them."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, 2 * SLOT)
    finally:
        os.close(fd)


def lock_record(path: str) -> int | None:
    """Open the record and lock it until the descriptor is closed; None if another process holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def write_record(fd: int, record: dict[str, Any], sync: bool = False) -> None:
    """Write the next state; `seq` in it grows by one each time. With `sync` it survives a power cut."""
    record["seq"] = record.get("seq", 0) + 1
    body = compact(record).encode()
    line = b"%08x %s\n" % (zlib.crc32(body), body)
    if len(line) > SLOT:
        raise ValueError(f"record of {len(line)} bytes: at most {SLOT} fit")
    os.pwrite(fd, line, (record["seq"] % 2) * SLOT)
    if sync:
        os.fdatasync(fd)


def read_record(fd: int) -> dict[str, Any]:
    """Give the newest whole state; {} if none was ever written."""
    newest: dict[str, Any] = {}
    for slot in (0, 1):
        line = os.pread(fd, SLOT, slot * SLOT).split(b"\n", 1)[0]
        if len(line) < 10 or line[8:9] != b" ":
            continue
        body = line[9:]
        if line[:8] == b"%08x" % zlib.crc32(body):
            found = json.loads(body)
            if found["seq"] > newest.get("seq", 0):
                newest = found
    return newest


def read_record_at(path: str) -> dict[str, Any]:
    """As read_record, of a file; {} if there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    try:
        return read_record(fd)
    finally:
        os.close(fd)


def sync_directory(path: str) -> None:
    """Make the names in a directory survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_json(path: str, value: Any) -> None:
    """Write one JSON file whole: a reader sees all of it or the file before."""
    data = json.dumps(value).encode()
    fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        done = 0
        while done < len(data):
            done += os.write(fd, data[done:])
    finally:
        os.close(fd)
    os.rename(path + ".new", path)


def read_json(path: str) -> Any:
    """Read one JSON file. Raises OSError, ValueError."""
    with open(path, "rb") as file:
        return json.loads(file.read())


def end_line(rank: int, code: int, signal: int) -> bytes:
    """One task's end: 32 bytes, so that the file can be allocated before the task starts."""
    return b"%10d %6d %6d" % (rank, code, signal) + b" " * 6 + b".\n"


def read_ends(path: str) -> dict[int, tuple[int, int]]:
    """The ends that are recorded in a step's `ends`: rank -> (exit code, signal)."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return {}
    lines = (data[i : i + END_SIZE] for i in range(0, len(data) - END_SIZE + 1, END_SIZE))
    parts = (line.split() for line in lines if line.endswith(b".\n"))
    return {int(rank): (int(code), int(signal)) for rank, code, signal, _ in parts}
