"""What must hold: after every event (safety), and once everything works again (liveness)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gsched.errors import Conflict, GschedError, NotFound, Unavailable
from gsched.protocol.link import LaunchSpec
from gsched.protocol.messages import UserReply, UserRequest
from gsched.values.ids import JobId, RunKey
from gsched.values.run import NodePhase
from gsched.values.states import JobState
from gschedd.lifecycle.changes import PutJob, PutRun

if TYPE_CHECKING:
    from tests.sim.host import Host
    from tests.sim.world import World


class Broken(AssertionError):
    """A rule was broken. The text carries seed and virtual time: the seed replays it."""


class Checker:
    """Looks at the physical truth (processes on hosts, what users were told), not at the controller's belief."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._moves = -1
        self._shown: dict[JobId, tuple[int, JobState]] = {}  # highest (run or end) each job was shown at
        self.launches: dict[tuple[RunKey, str], int] = {}

    def _fail(self, text: str) -> None:
        raise Broken(f"seed {self._world.seed}, t = {self._world.time / 1000:.3f} s: {text}")

    # --- after every event

    def always(self) -> None:
        """No GPU in two live runs, no two live runs of one job."""
        if self._world.fatal:
            self._fail(f"the controller stopped serving: {self._world.fatal}")
        moves = sum(host.moves for host in self._world.hosts.values())
        if moves == self._moves:
            return  # what runs is what ran when it was last looked at
        self._moves = moves
        running: dict[JobId, RunKey] = {}
        for host in self._world.hosts.values():
            held: dict[int, RunKey] = {}
            seen: set[RunKey] = set()
            for process in host.processes:
                for gpu in process.gpus:
                    if held.setdefault(gpu, process.key) != process.key:
                        self._fail(f"GPU {gpu} of {host.name} in runs {held[gpu]} and {process.key}")
                if process.user_since is None:
                    continue
                if process.key in seen:
                    self._fail(f"run {process.key} was started twice on {host.name}")
                seen.add(process.key)
                if running.setdefault(process.key.job, process.key) != process.key:
                    self._fail(f"runs {running[process.key.job]} and {process.key} live at once")

    def launched(self, host: Host, key: RunKey, launch: LaunchSpec) -> None:
        """Something of the user's starts: a script only when every other node of the gang is open, or has died."""
        self.launches[key, host.name] = self.launches.get((key, host.name), 0) + 1
        if self.launches[key, host.name] > 1:
            self._fail(f"run {key} was started a second time on {host.name}")
        for name in launch.nodes:
            other = self._world.hosts[name]
            directory = other.disk.get(key)
            if not other.powered or (directory is not None and directory.boot_id != other.boot_id):
                continue  # it died since
            phase = directory.phase if directory is not None else None
            least = NodePhase.OPEN if launch.node_index == 0 and name != host.name else NodePhase.READY
            if phase is None or phase is NodePhase.ORDERED or (least is NodePhase.OPEN and phase is NodePhase.READY):
                self._fail(f"run {key} starts on {host.name} while {name} is {phase}")

    # --- what users are told

    def answered(self, request: UserRequest, body: Any) -> None:
        """Every request of this simulation is in order: it is not refused but for what may have happened meanwhile."""
        if isinstance(body, GschedError) and not isinstance(body, Conflict | NotFound | Unavailable):
            self._fail(f"{request} was refused: {body}")

    def looked(self, page: UserReply) -> None:
        """What was shown is never taken back: no state after an end, no earlier run after a later one."""
        for row in self._world.rows(page):
            run = 10**9 if row.state.final else row.restarts
            before = self._shown.get(row.id)
            if before is not None and before[0] > run:
                self._fail(f"job {row.id} was shown {before[1].value}, later {row.state.value}")
            if before is not None and before[1].final and before[1] is not row.state:
                self._fail(f"job {row.id} ended {before[1].value}, later {row.state.value}")
            self._shown[row.id] = (run, row.state)
        present = {row.id for row in self._world.rows(page)}
        for job, (_, state) in self._shown.items():
            if job not in present and not state.final and not self._may_have_left(job):
                self._fail(f"job {job} was {state.value} and is not listed any more")

    def _may_have_left(self, job: JobId) -> bool:
        """Its final state is durable and min_job_age is over (or seems so after the wall clock stepped)."""
        stored = self._stored()[0].get(job)
        if stored is None or not stored.state.final:
            return False
        age_ms = self._world.now().wall - stored.kept_from
        return self._world.wall_stepped or age_ms >= 1000 * self._world.settings.times.min_job_age_s

    # --- after healing

    def in_the_end(self) -> None:
        """Every acknowledged job ended in one state, nothing is left anywhere, each run is counted once."""
        world = self._world
        machine = world.machine
        assert machine is not None
        jobs, runs = self._stored()
        for job_id in world.acknowledged:
            job = jobs.get(job_id)
            if job is None:
                self._fail(f"job {job_id} was acknowledged and is not in the store")
            elif not job.state.final:
                self._fail(f"job {job_id} has not ended: {job.state.value} ({job.reason.value} {job.detail})")
        for host in world.hosts.values():
            if host.processes or host.disk:
                self._fail(f"{host.name} has {[str(p.key) for p in host.processes]}, disk {list(host.disk)}")
            use = machine.state.use[host.name]
            if use.runs or use.gpus or use.cpus or use.mem_mib:
                self._fail(f"{host.name} is held by {list(use.runs)} in the controller's books")
        for key, run in runs.items():
            if not run.closed:
                self._fail(f"run {key} is not closed")
            measured = world.hosts[run.parts[0].share.node].counted.get(key)
            told = run.outcome is not None and run.outcome.value in ("COMPLETED", "FAILED", "TIMEOUT")
            if told and measured is not None and run.elapsed_s != measured:
                self._fail(f"run {key} took {measured} s, {run.elapsed_s} s are charged")
        for job in jobs.values():
            numbers = sorted(key.run for key in runs if key.job == job.id)
            if numbers != list(range(1, job.run + 1)):
                self._fail(f"job {job.id} has run {job.run}, its runs are {numbers}")

    def _stored(self) -> tuple[dict[JobId, Any], dict[RunKey, Any]]:
        jobs: dict[JobId, Any] = {}
        runs: dict[RunKey, Any] = {}
        for batch in self._world.journal.batches:
            for change in batch.changes:
                if isinstance(change, PutJob):
                    jobs[change.job.id] = change.job
                elif isinstance(change, PutRun):
                    runs[change.run.key] = change.run
        return jobs, runs
