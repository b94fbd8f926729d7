"""Starting one process of the user: become the user, enter the directory, exec; and what came of it.

Two roads. The script goes by `run_script`: a vfork in C, several times cheaper than a fork of Python, which counts
because most runs are a script and nothing else. Tasks go by `start`: a fork, in which a task's variable
SLURM_TASK_PID can be set.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import time
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from agent.supervisor import identity, processes
else:
    import identity
    import processes

BUSY_TRIES: Final = 50  # of 2 ms: the script may still be open for writing in a process that was forked meanwhile
_AT_START: Final = tuple(set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP})


class Command(NamedTuple):
    """What to run and how. Descriptors are the caller's and stay open there."""

    argv: list[str]
    environment: dict[str, str]
    chdir: str
    umask: int
    stdout: int
    stderr: int
    search: bool = False  # look argv[0] up in PATH


class Child(NamedTuple):
    """A started process. `trouble` gives b"" once exec has worked, else a line "ERRNO what"."""

    pid: int
    trouble: int


def run_script(command: Command, who: identity.Identity) -> int:
    """Start the script; gives its pid, for the caller to wait for.

    Raises OSError: `filename` is the directory if that could not be entered.

    Every signal that this process handles is the default one again in the script; none is ignored or blocked here.
    """
    spawn = _spawn if who.groups is None else _spawn_as
    for left in range(BUSY_TRIES, -1, -1):
        try:
            return spawn(command, who)
        except OSError as error:
            if error.errno != errno.ETXTBSY or left == 0:
                raise
            time.sleep(0.002)
    raise AssertionError("not reached")


def _spawn(command: Command, _who: identity.Identity) -> int:
    """As this very user: posix_spawn, which costs half of what the subprocess module does.

    It cannot change directory or mask, so this process does for a moment; it has one thread. Every other descriptor
    here is closed by the exec.
    """
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    umask = os.umask(command.umask)
    try:
        os.chdir(command.chdir)
        return os.posix_spawn(
            command.argv[0],
            command.argv,
            command.environment,
            file_actions=(
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, command.stdout, 1),
                (os.POSIX_SPAWN_DUP2, command.stderr, 2),
            ),
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores them; what has a handler is reset by the exec
        )
    finally:
        os.umask(umask)
        os.fchdir(here)
        os.close(here)


def load_for_others() -> None:
    """Load what only another user's run needs, before its supervisor is forked.

    Not sooner: it brings `threading`, whose hook makes every fork a tenth dearer.
    """
    importlib.import_module("subprocess")


def _spawn_as(command: Command, who: identity.Identity) -> int:
    """As another user; the directory is entered with that user's rights."""
    import subprocess

    process = subprocess.Popen(
        command.argv,
        env=command.environment,
        cwd=command.chdir,
        umask=command.umask,
        stdin=subprocess.DEVNULL,
        stdout=command.stdout,
        stderr=command.stderr,
        start_new_session=True,
        user=who.uid,
        group=who.gid,
        extra_groups=who.groups,
    )
    process.returncode = 0  # it would wait for the child when it is dropped, and take the status from us
    return process.pid


def start(command: Command, who: identity.Identity) -> Child:
    """Fork and exec. Raises OSError if the fork itself fails; whether exec worked is read from `trouble`."""
    read, write = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(read)
        os.close(write)
        raise
    if pid == 0:
        _run(command, who, write, parent)
    os.close(write)
    return Child(pid, read)


def _run(command: Command, who: identity.Identity, trouble: int, parent: int) -> None:
    """The child's part; never returns."""
    what = "start"
    try:
        os.setsid()
        for number in _AT_START:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _standard_streams(command)
        what = "become the user"
        identity.become(who)
        processes.die_with_parent(parent)
        os.umask(command.umask)
        what = f"enter the working directory {command.chdir}"
        os.chdir(command.chdir)
        what = f"execute {command.argv[0]}"
        _exec(command)
    except OSError as error:
        code = 126 if error.errno in (errno.EACCES, errno.ENOEXEC, errno.EPERM) else 127
        line = f"{code} cannot {what}: {os.strerror(error.errno or 0)}"
        os.write(trouble, line.encode(errors="replace")[:4000])
    except ValueError as error:  # a NUL character where the kernel wants none
        os.write(trouble, f"127 cannot {what}: {error}".encode(errors="replace")[:4000])
    finally:
        os._exit(127)


def _standard_streams(command: Command) -> None:
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    # Three fresh numbers first: the wanted ones may sit where another is to go.
    high = [os.dup(fd) for fd in (null, command.stdout, command.stderr)]
    for number, fd in enumerate(high):
        os.dup2(fd, number)


def _exec(command: Command) -> None:
    environment = dict(command.environment, SLURM_TASK_PID=str(os.getpid()))
    for left in range(BUSY_TRIES, -1, -1):
        try:
            if command.search:
                os.execvpe(command.argv[0], command.argv, environment)
            os.execve(command.argv[0], command.argv, environment)
        except OSError as error:
            if error.errno != errno.ETXTBSY or left == 0:
                raise
            time.sleep(0.002)


def read_trouble(child: Child) -> tuple[int, str] | None:
    """After `trouble` became readable or the child ended: None if exec worked, else (exit code, what failed)."""
    line = os.read(child.trouble, 4096).decode(errors="replace")
    os.close(child.trouble)
    if not line:
        return None
    code, _, text = line.partition(" ")
    return int(code), text
