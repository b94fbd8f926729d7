"""Starting supervisors: a template process that has imported everything forks one for each run (`agent/supervisor`)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import agent.supervisor
from agent.supervisor import records

_DIRECTORY: Final = Path(agent.supervisor.__file__).parent
# Nothing of the agent's own environment: it may hold what no job should see.
_ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


class Launcher:
    """Holds the template. A template that died is started again, once a launch."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def start(self) -> None:
        """Start the template if there is none. Raises OSError."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", str(_DIRECTORY), "--template"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,  # a Ctrl-C for the agent is not for the runs
            )
        ours.settimeout(10)
        self._socket = ours

    def launch(self, directory: str, anothers: bool = False) -> socket.socket:
        """Have a supervisor started for a run directory; gives the connection to it. Raises OSError.

        anothers: the run's user is not the agent's.
        Whether it came to life is heard on the connection: it greets, or the connection ends.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with theirs:
                self._send((records.ANOTHERS if anothers else b"") + os.fsencode(directory), theirs.fileno())
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        return ours

    def _send(self, message: bytes, fd: int) -> None:
        for again in (True, False):
            self.start()
            assert self._socket is not None
            try:
                socket.send_fds(self._socket, [message], [fd])
                return
            except OSError:
                if not again:
                    raise
                self.close()

    def close(self) -> None:
        """End the template; supervisors go on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
