"""Finding and ending the processes of a run, by what the kernel says of parents.

A supervisor is a *subreaper*: whatever its children leave behind becomes its child. So every process of the run is
its descendant, however it forked, and "I have no child" (ECHILD) means that none is left. Also used by the agent,
for what a dead supervisor left.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from agent.supervisor import group

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_libc = ctypes.CDLL(None, use_errno=True)


class Process(NamedTuple):
    """One line of /proc/PID/stat, as far as it matters here."""

    pid: int
    state: str  # "Z" = ended, not yet waited for
    ppid: int
    session: int
    start: int  # clock ticks since boot: with the pid it names a process for ever


def become_subreaper() -> None:
    """Orphans among this process's descendants become its children from now on."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies. After any change of user: that would undo it."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def look_at(pid: int) -> Process | None:
    """Read one process; None if it is gone."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(fd, 4096)
        finally:
            os.close(fd)
    except OSError:
        return None
    fields = text[text.rfind(b")") + 2 :].split()  # the name before it may hold anything
    if len(fields) < 20:
        return None
    return Process(pid, fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def all_processes() -> list[Process]:
    """Every process that this one can see."""
    found = (look_at(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def below(roots: set[int], processes: list[Process]) -> list[Process]:
    """The descendants of `roots` among `processes`, without the roots themselves."""
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.ppid, []).append(process)
    found: list[Process] = []
    todo = list(roots)
    seen = set(roots)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child.pid not in seen:
                seen.add(child.pid)
                found.append(child)
                todo.append(child.pid)
    return found


def descendants() -> list[Process]:
    """Every live process below this one; those that have ended and wait for their parent are left out."""
    return [process for process in below({os.getpid()}, all_processes()) if process.state != "Z"]


def alone() -> bool:
    """Whether this process has no child at all, live or waiting: a subreaper then has no descendant."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def send(pids: list[int], number: int) -> None:
    """Send a signal to each; one that is gone, or that only root may signal, is passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def end_run(number: int, held: group.Group) -> None:
    """Send `number` to every process of this supervisor's run: the one place that says how that is done.

    KILL first lets the run's control group fork no more, and stops what it finds until nothing new appears: a process
    that forks faster than one can look is caught.
    """
    pids = _of_run(held)
    if number == signal.SIGKILL:
        held.fence()
        for _ in range(20):
            send(pids, signal.SIGSTOP)
            again = _of_run(held)
            if set(again) <= set(pids):
                break
            pids = again
    send(pids, number)
    if number == signal.SIGTERM:
        send(pids, signal.SIGCONT)  # a stopped process would not hear it


def _of_run(held: group.Group) -> list[int]:
    return sorted({process.pid for process in descendants()} | held.members())


def marked(token: str) -> set[int]:
    """Processes that carry GSCHED_RUN_TOKEN=`token` in the environment they were started with."""
    needle = b"GSCHED_RUN_TOKEN=" + token.encode()
    found = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if needle in file.read().split(b"\0"):
                    found.add(int(name))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM):
                raise
    return found


def kill_marked(token: str, known: tuple[int, int] = (0, 0)) -> bool:
    """One round of KILL to the marked processes and all below them; True if none was left.

    For a run whose supervisor is dead. known: (pid, start) of a process that is the run's whatever its environment.
    Ended ones that nobody has waited for have no environment and do not count.
    """
    roots = marked(token) - {os.getpid()}
    script = look_at(known[0]) if known[0] else None
    if script is not None and script.start == known[1] and script.state != "Z":
        roots.add(script.pid)
    if not roots:
        return True
    family = {process.pid for process in below(roots, all_processes())} | roots
    send(sorted(family - {os.getpid()}), signal.SIGSTOP)
    family |= {process.pid for process in below(roots, all_processes())}
    send(sorted(family - {os.getpid()}), signal.SIGKILL)
    return False
