"""The agent's directory on disk: a directory a run, and the few facts that must outlive the agent.

runs/JOB.RUN/   one run (`agent/supervisor/records.py`); making it is the test-and-set of a launch
user/JOB.RUN/   the script of another user's run, which that user can read
memory          AgentMemory, written whole and synced
machine         the id of the machine that made the spool; it is not adopted on another
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from agent.runs.effects import AgentMemory
from agent.supervisor import records
from gsched.errors import BadConfig
from gsched.values.ids import JobId, RunKey, RunNo

GONE: Final = ".gone-"


class Spool:
    """Paths and files; no process is touched here. The agent alone makes and removes run directories."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = root / "runs"
        self.runs.mkdir(parents=True, exist_ok=True, mode=0o700)

    def claim(self, machine_id: str) -> None:
        """Mark the spool as this machine's. Raises BadConfig if another machine made it."""
        path = self.root / "machine"
        if not path.exists():
            path.write_text(machine_id + "\n")
        elif (found := path.read_text().strip()) != machine_id:
            raise BadConfig(
                f"the spool {self.root} was made on machine {found}, this is {machine_id}: runs in it are not "
                "this machine's; use another directory, or remove it if none of them matters"
            )

    # --- memory

    def load_memory(self) -> AgentMemory:
        """What was saved last; a fresh memory if nothing was."""
        try:
            return msgspec.json.decode((self.root / "memory").read_bytes(), type=AgentMemory)
        except FileNotFoundError:
            return AgentMemory()

    def save_memory(self, memory: AgentMemory) -> None:
        """Write the memory, synced. Raises OSError."""
        path = self.root / "memory"
        fresh = path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(msgspec.json.encode(memory))
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        records.sync_directory(str(self.root))

    # --- runs

    def directory(self, key: RunKey) -> Path:
        return self.runs / str(key)

    def record_path(self, key: RunKey) -> str:
        return f"{self.runs}/{key}/record"

    def found(self) -> list[RunKey]:
        """The runs that have a directory, in order."""
        names = [path.name.partition(".") for path in self.runs.iterdir()]
        return sorted(
            RunKey(JobId(int(job)), RunNo(int(run))) for job, _, run in names if job.isdecimal() and run.isdecimal()
        )

    def set_aside_before(self) -> list[Path]:
        """What an earlier agent set aside and did not get to sweep."""
        return list(self.runs.glob(f"{GONE}*"))

    def make(self, key: RunKey, launch: dict[str, Any], script: bytes) -> None:
        """Make a run's directory, or finish one that a crash left without a supervisor. Raises OSError."""
        directory = self.directory(key)
        directory.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileExistsError):
            records.create_record(self.record_path(key))
        if launch["first"]:
            launch["script"] = self._write_script(key, script, launch["uid"], launch["gid"])
        records.write_json(f"{directory}/launch", launch)

    def launch_of(self, key: RunKey) -> dict[str, Any]:
        """The launch file; {} if it was never written whole."""
        try:
            launch: dict[str, Any] = records.read_json(f"{self.runs}/{key}/launch")
        except (FileNotFoundError, ValueError):
            return {}
        return launch

    def set_aside(self, key: RunKey) -> Path | None:
        """Take a run out of the spool at once; what is left to be swept, or None. Raises OSError."""
        gone = self.runs / f"{GONE}{key}"
        try:
            self.directory(key).rename(gone)  # a half removed directory would look like a run
        except FileNotFoundError:
            return None
        return gone

    def sweep(self, gone: Path) -> None:
        """Remove the files of a run that was set aside. May take long: the disk may be in the middle of a sync."""
        with suppress(OSError):  # the few files of most runs, without a look at each
            for name in ("record", "launch", "script", "sock"):
                (gone / name).unlink(missing_ok=True)
            gone.rmdir()
        if gone.exists():
            shutil.rmtree(gone)
        user = self.root / "user" / gone.name.removeprefix(GONE)
        if user.exists():
            shutil.rmtree(user)

    def _write_script(self, key: RunKey, script: bytes, uid: int, gid: int) -> str:
        if uid == os.geteuid():
            path = f"{self.runs}/{key}/script"
            _write_file(path, script, 0o500)
            return path
        directory = self.root / "user" / str(key)
        directory.parent.mkdir(mode=0o711, exist_ok=True)
        if directory.exists():
            shutil.rmtree(directory)  # of a launch that was cut off: the user may have put anything there
        directory.mkdir(mode=0o700)
        path = str(directory / "script")
        _write_file(path, script, 0o500)
        os.chown(path, uid, gid)
        os.chown(directory, uid, gid)
        return path


def _write_file(path: str, data: bytes, mode: int) -> None:
    """Cut off by a crash, it is written again: the launch file, which is made whole, comes after it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        done = 0
        while done < len(data):
            done += os.write(fd, data[done:])
        os.fchmod(fd, mode)
    finally:
        os.close(fd)
