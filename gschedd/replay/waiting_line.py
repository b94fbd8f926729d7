"""The core's input, kept as values from pass to pass, and the order in which the queue is walked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gsched.values.ids import Instant, JobId, RunKey
from gschedd.core.inputs import HoldInput, NodeInput, Plan, Policy, QueueInput
from gschedd.core.plan import plan
from gschedd.core.snapshot import build_snapshot

_AGED_GPU_S: Final = 200_000
_NO_LIMIT_S: Final = 3600


class WaitingLine:
    """Told what changes; asked for plans."""

    def __init__(self, nodes: Sequence[NodeInput], policy: Policy) -> None:
        self._nodes, self._policy = nodes, policy
        self._holds: dict[RunKey, HoldInput] = {}
        self._queue: dict[JobId, QueueInput] = {}

    def put_job(self, job: QueueInput) -> None:
        self._queue[job.job] = job

    def drop_job(self, job: JobId) -> None:
        del self._queue[job]

    def put_hold(self, hold: HoldInput) -> None:
        self._holds[hold.key] = hold

    def drop_hold(self, key: RunKey) -> None:
        del self._holds[key]

    def plan(self, now: Instant) -> Plan:
        queue = list(self._queue.values())
        if self._policy.shortest_first:
            queue.sort(key=lambda job: (-response_ratio(job, now), job.job))
        return plan(build_snapshot(self._nodes, list(self._holds.values()), queue), self._policy, now)


def response_ratio(job: QueueInput, now: Instant) -> int:
    """How long it has waited over the GPU time it is expected to take: the highest comes first."""
    request = job.request
    gpu_s = request.nodes_min * max(request.need.gpus, 1) * (request.time_limit_s or _NO_LIMIT_S)
    return (now - job.factors.eligible + 1000 << 20) // (gpu_s + _AGED_GPU_S)
