"""A local cluster of real processes, driven by the real commands, as a test sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gsched.client.blocking import Client, connect
from gsched.protocol.messages import JobRow, ListJobs, ListNodes
from gsched.values.ids import JobId
from tests.waiting import until

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parents[2]
FINAL = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}


class LocalCluster:
    """One `gsched up` directory. Its jobs' files go to `work`."""

    def __init__(self, folder: Path, nodes: int = 4, simulate: str = "8xH100-SXM") -> None:
        self.dir = folder / "c"
        self.work = folder / "w"
        self.work.mkdir()
        self.nodes = nodes
        self._up = ["gsched", "up", "-d", "--dir", str(self.dir), "--nodes", str(nodes), "--simulate", simulate]

    # --- the cluster

    def up(self) -> None:
        """Start what is not running; ready when this returns."""
        self.run(*self._up, within_s=630)  # the very first start compiles

    def start_up(self) -> subprocess.Popen[bytes]:
        """The same beside the caller, who waits for the process."""
        return subprocess.Popen([str(BIN / "gsched"), *self._up[1:]], stdout=subprocess.DEVNULL)

    def down(self) -> None:
        self.run("gsched", "down", "--dir", str(self.dir), within_s=60)

    def pid(self, part: str) -> int:
        """part: "gschedd" or "agent-NODE"."""
        return int((self.dir / f"{part}.pid").read_text())

    def kill(self, part: str) -> None:
        """kill -9, and wait until the process is gone."""
        pid = self.pid(part)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid), 10, f"{part} ({pid}) gone")

    def settle(self) -> None:
        """Every daemon runs, no job is left: what each test leaves behind."""
        if not all(self.alive(part) for part in self.parts):
            self.up()
        if self.unfinished():
            self.run("gcancel", "--me")
            until(lambda: not self.unfinished(), 30, "an empty queue")

    @property
    def parts(self) -> tuple[str, ...]:
        return ("gschedd", *(f"agent-n{number}" for number in range(1, self.nodes + 1)))

    def alive(self, part: str) -> bool:
        return (self.dir / f"{part}.pid").exists() and alive(self.pid(part))

    # --- commands

    def run(
        self,
        *argv: str,
        check: bool = True,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        within_s: float = 30,
    ) -> subprocess.CompletedProcess[str]:
        """Run one command of gsched in the work directory, as a user of this cluster would."""
        command = [str(BIN / argv[0]), *argv[1:]]
        done = subprocess.run(
            command,
            cwd=self.work,
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "GSCHED_SOCKET": self.socket, **(env or {})},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            check=False,
            text=True,
            timeout=within_s,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(argv)}: status {done.returncode}\n{done.stdout}{done.stderr}{self.logs()}")
        return done

    def out(self, *argv: str) -> str:
        return self.run(*argv).stdout.strip()

    @property
    def socket(self) -> str:
        return str(self.dir / "gschedd.sock")

    def logs(self, lines: int = 15) -> str:
        """The daemons' last words, for a failed test."""
        tails = [(p.name, p.read_text(errors="replace").splitlines()[-lines:]) for p in self.dir.glob("log/*.log")]
        return "\n".join(f"--- {name}\n" + "\n".join(tail) for name, tail in sorted(tails))

    # --- jobs

    def gsub(self, *options: str, wrap: str | None = None, script: str | None = None) -> int:
        """Submit; give the job id. Options before, `wrap` or the text of a script after."""
        last = ["--wrap", wrap] if wrap is not None else []
        return int(self.run("gsub", "--parsable", *options, *last, stdin=script).stdout)

    def state(self, job: int) -> str:
        """The state in capitals, PENDING to COMPLETED. Asked as gqueue asks, without the time its process takes."""
        return self.row(job).state.value

    def reason(self, job: int) -> str:
        return self.row(job).reason

    def row(self, job: int) -> JobRow:
        with self.client() as client:
            (row,) = client.call(ListJobs(jobs=(JobId(job),))).rows
        return row

    def unfinished(self) -> int:
        """How many jobs wait, run or are ending."""
        with self.client() as client:
            return sum(len(page.rows) for page in client.pages(ListJobs()))

    def wait(self, job: int, *states: str, within_s: float = 30) -> str:
        """Wait until the job is in one of `states` (none given: any final one). Fails at once in another final one."""
        wanted = set(states) or FINAL

        def there() -> str:
            state = self.state(job)
            assert state in wanted or state not in FINAL, f"job {job} is {state}, not {wanted}\n{self.acct(job)}"
            return state if state in wanted else ""

        return until(there, within_s, f"job {job} in {wanted}")

    def acct(self, job: int, fields: Sequence[str] = ("JobID", "State", "ExitCode")) -> list[str]:
        """One line of accounting, the job's own, as fields."""
        return self.out("gacct", "-X", "-n", "-P", "-j", str(job), "-o", ",".join(fields)).split("|")

    def nodes_of(self, job: int) -> set[str]:
        return set(self.row(job).nodes)

    def text(self, name: str) -> str:
        """A file that a job wrote; "" while there is none."""
        path = self.work / name
        return path.read_text() if path.exists() else ""

    # --- what the cluster is like

    def client(self) -> Client:
        return connect(self.socket)

    def gpus_in_use(self) -> int:
        with self.client() as client:
            return sum(row.gpus_used.bit_count() for row in client.call(ListNodes()).rows)

    def last_job(self) -> int:
        """The highest id that was ever given out, by what accounting has."""
        return max(map(int, self.out("gacct", "-X", "-n", "-P", "-o", "JobID").split()), default=0)

    @staticmethod
    def example(name: str) -> str:
        return str(ROOT / "docs" / "examples" / name)


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"
