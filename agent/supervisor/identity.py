"""Becoming the user: who a run's processes are, and what only they may open.

A supervisor that runs as the user already (a local cluster) does things itself; root's does them in a child that has
taken the user's uid, gid, groups and umask, so that no root process ever looks at a path which a user named.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import socket
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

LOOKUP_S: Final = 30  # seconds for the node's user database, and for the user's file systems


class Identity(NamedTuple):
    """Whom the run's processes are to be. `groups` None: this process already is that user."""

    uid: int
    gid: int
    groups: list[int] | None = None


class Refusal(Exception):
    """The run cannot be prepared. `blame` is "job" or "node"; `reason` a Reason's value or ""."""

    def __init__(self, blame: str, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.blame, self.text, self.reason = blame, text, reason


def identify(uid: int, gid: int, user: str) -> Identity:
    """Find out whom to become. Raises Refusal (blame: node) if this process cannot or the node has another user."""
    if uid == os.geteuid():
        return Identity(uid, gid)
    if os.geteuid() != 0:
        raise Refusal("node", f"the agent runs as uid {os.geteuid()} and cannot run jobs of {user} (uid {uid})")
    answer = _ask_child(lambda: _groups_of(uid, gid, user), f"looking up {user}", "node")
    return Identity(uid, gid, [int(word) for word in answer.split()])


def become(identity: Identity) -> None:
    """Take the user's ids, for good. In a child only."""
    if identity.groups is not None:
        os.setgroups(identity.groups)
        os.setresgid(identity.gid, identity.gid, identity.gid)
        os.setresuid(identity.uid, identity.uid, identity.uid)


def open_outputs(identity: Identity, paths: list[str], append: bool, umask: int, chdir: str) -> list[int]:
    """Open the run's output files as the user, and see that its directory can be entered. Raises Refusal (the job's).

    Gives one descriptor a path; directories on the way are made.
    """
    if identity.groups is None:
        before = os.umask(umask)
        try:
            _see_directory(chdir)
            return [_open_output(path, append) for path in paths]
        finally:
            os.umask(before)
    return _open_in_child(identity, paths, append, umask, chdir)


def _see_directory(path: str) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        os.close(fd)
        if not os.access(path, os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise Refusal("job", f"cannot enter the working directory {path}: {_why(error)}", "JobLaunchFailure") from None


def _open_output(path: str, append: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
    flags |= os.O_APPEND if append else 0
    try:
        try:
            fd = os.open(path, flags, 0o666)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            fd = os.open(path, flags, 0o666)
        mode = os.fstat(fd).st_mode
        null = stat.S_ISCHR(mode) and os.fstat(fd).st_rdev == os.makedev(1, 3)
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or null):
            os.close(fd)
            raise Refusal("job", f"output file {path}: neither a regular file, a FIFO nor /dev/null", "OutputFile")
        if stat.S_ISREG(mode) and not append:
            os.ftruncate(fd, 0)  # only now: never on what would have been refused
        # Opened without blocking, used with: programs don't expect EAGAIN on their standard output.
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NONBLOCK)
        return fd
    except OSError as error:
        raise Refusal("job", f"cannot open output file {path}: {_why(error)}", "OutputFile") from None


def _why(error: OSError) -> str:
    hint = " (a FIFO that nobody reads)" if error.errno == errno.ENXIO else ""
    name = errno.errorcode.get(error.errno or 0, str(error.errno))
    return f"{os.strerror(error.errno or 0)} ({name}){hint}"


def _open_in_child(identity: Identity, paths: list[str], append: bool, umask: int, chdir: str) -> list[int]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            become(identity)
            os.umask(umask)
            try:
                _see_directory(chdir)
                fds = [_open_output(path, append) for path in paths]
                socket.send_fds(theirs, [b"+"], fds)
            except Refusal as refusal:
                theirs.send(f"-{refusal.reason}\n{refusal.text}".encode(errors="replace"))
        finally:
            os._exit(0)
    theirs.close()
    try:
        if not select.select([ours], [], [], LOOKUP_S)[0]:
            raise Refusal("job", f"the files of the job did not open in {LOOKUP_S} s: {', '.join(paths)}", "OutputFile")
        message, fds, _, _ = socket.recv_fds(ours, 8192, len(paths))
    finally:
        ours.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for fd in fds:
        os.set_inheritable(fd, False)
    if message != b"+":
        reason, _, text = message[1:].decode().partition("\n")
        raise Refusal("job", text or "the child that opens the job's files died", reason)
    return fds


def _groups_of(uid: int, gid: int, user: str) -> str:
    import pwd

    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise Refusal("node", f"user {user} (uid {uid}) is not known on this node") from None
    if entry.pw_uid != uid:
        raise Refusal("node", f"user {user} has uid {entry.pw_uid} on this node, the controller says {uid}")
    return " ".join(str(group) for group in os.getgrouplist(user, gid))


def _ask_child(question: Callable[[], str], what: str, blame: str) -> str:
    """Answer a question that may hang (user databases do) in a child with a time-out."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            try:
                os.write(write, b"+" + question().encode())
            except Refusal as refusal:
                os.write(write, b"-" + refusal.text.encode(errors="replace"))
        finally:
            os._exit(0)
    os.close(write)
    try:
        if not select.select([read], [], [], LOOKUP_S)[0]:
            raise Refusal(blame, f"{what} took longer than {LOOKUP_S} s")
        answer = os.read(read, 65536).decode()
    finally:
        os.close(read)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if not answer.startswith("+"):
        raise Refusal(blame, answer[1:] or f"{what} failed")
    return answer[1:]
