"""The template: a process that has imported everything and forks a supervisor for each run that it is told.

It holds no job's data. Its standard input is a SOCK_SEQPACKET socket of the agent: each message is a run directory,
with the supervisor's end of a connection attached. When the agent is gone it ends; supervisors go on.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agent.supervisor import children, records, serve
else:
    import children
    import records
    import serve

PATH_MAX: Final = 4096


def detach() -> None:
    """Leave the starter's session, terminal and streams."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    if null > 2:
        os.close(null)


def serve_template() -> None:
    """Fork supervisors until the agent hangs up."""
    agent = socket.socket(fileno=os.dup(0))
    agent.set_inheritable(False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel waits for our children; a supervisor sets its own
    # Forked children share these pages as long as nobody writes to them, and a collection would. What a supervisor
    # makes is freed by counting alone.
    gc.collect()
    gc.disable()
    gc.freeze()
    while True:
        message, fds, _, _ = socket.recv_fds(agent, PATH_MAX + len(records.ANOTHERS), 1)
        if not message:
            return
        if message.startswith(records.ANOTHERS):
            children.load_for_others()
            message = message.removeprefix(records.ANOTHERS)
        # A failed fork closes the connection: the agent hears of it so.
        try:
            pid = os.fork()
        except OSError:
            pid = -1
        if pid == 0:
            agent.close()
            be_supervisor(os.fsdecode(message), fds[0])
        for fd in fds:
            os.close(fd)


def be_supervisor(directory: str, connection: int) -> None:
    """Turn this process into the supervisor of one run; never returns."""
    status = 70
    try:
        os.set_inheritable(connection, False)
        listener = socket.socket(fileno=connection)
        detach()
        status = serve.supervise(directory, listener)
    finally:
        os._exit(status)  # at once: what Python would tidy up is shared with the template
