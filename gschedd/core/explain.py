"""Why one job waits: per constraint what it needs, what there is, who has it, and when there would be enough.

Plain values in and out, for one job, asked by a person: it follows the rules of the pass, whose own decision (the
reason and the planned start) is taken from its plan. Counts and instants here leave link classes aside, and what is
planned for others counts by numbers of GPUs, not by which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from gsched.values.explanation import Constraint, Excluded, Explanation, Holder
from gsched.values.ids import Instant, JobId, NodeName
from gsched.values.job import MemoryRule, Request
from gschedd.core.inputs import Availability, NodeInput, PassInput, Plan, QueueInput
from gschedd.core.kept import Kept
from gschedd.core.sieve import (
    Filter,
    Room,
    Sieved,
    Taken,
    asked_mask,
    memory_of,
    sieve,
    state_filters,
    static_filters,
)
from gschedd.core.timeline import Fits, NodeTimes, by_domain, enough_at, taken_on, times_of

_HOLDERS: Final = 8  # named; the rest is left out
_TOO_LITTLE: Final = {
    "gpus": "too few free GPUs",
    "cores": "too few free cores",
    "memory": "too little free memory",
}


def explain(given: PassInput, plan: Plan, job: QueueInput) -> Explanation:
    """Say why `job` does not start. plan: what the pass over `given` decided."""
    work = _Work(given, plan, job)
    wait = plan.waits.of(job.job)
    starts = any(start.job == job.job for start in plan.starts)
    planned = next((p for p in plan.planned if p.job == job.job), None)
    return Explanation(
        job=job.job,
        at=given.now,
        reason=wait.reason.value if wait is not None else "None",
        detail=wait.detail if wait is not None else "it is about to start" if starts else "",
        nodes_known=len(given.nodes),
        nodes_needed=work.needed,
        nodes_fit=len(work.fits),
        excluded=tuple(Excluded(step.filter.name, len(step.out), step.filter.text) for step in work.steps if step.out),
        constraints=tuple(work.constraints()),
        planned=planned.at if planned is not None else None,
        planned_nodes=planned.nodes if planned is not None else (),
    )


class _Work:
    """The filters' results for one job."""

    def __init__(self, given: PassInput, plan: Plan, job: QueueInput) -> None:
        self.given, self.plan, self.job = given, plan, job
        request = self.request = job.request
        self.named = frozenset(request.nodelist)
        self.needed = max(request.nodes_min, len(self.named))
        self.asked = {node.name: asked_mask(request, node) for node in given.nodes}
        self.static = sieve(given.nodes, static_filters(request, self.asked))
        able = self.static[-1].left
        self.state = sieve(able, state_filters(job, self.asked))
        up = self.state[-1].left
        taken = taken_on(given, plan)
        self.times = [self._times(node, taken.get(node.name, ())) for node in up]
        self.by_name = {each.node.name: each for each in self.times}
        self.free = sieve(up, self._free_filters())
        self.kept = Kept(given, plan, job, self.by_name, self.asked)
        self.late = sieve(self.free[-1].left, self.kept.filters())
        self.steps: list[Sieved] = [*self.static, *self.state, *self.free, *self.late]
        self.fits = self.steps[-1].left

    def _times(self, node: NodeInput, taken: Sequence[Taken]) -> NodeTimes:
        return times_of(self.request, node, self.asked[node.name], taken, self.given.now)

    def _free_filters(self) -> list[Filter]:
        return [Filter(f"free_{what}", _TOO_LITTLE[what], self._now_fits(fits)) for what, fits in self._resources()]

    def _now_fits(self, fits: Fits) -> Callable[[NodeInput], bool]:
        return lambda node: fits(node, self.by_name[node.name].steps[0][1])

    def _resources(self) -> list[tuple[str, Fits]]:
        request = self.request
        all_of: list[tuple[str, Fits]] = [
            ("gpus", lambda _node, has: has.gpus.bit_count() >= request.need.gpus),
            ("cores", lambda _node, has: has.cores >= request.need.cpus),
            ("memory", lambda node, has: has.memory >= memory_of(request, node.inventory)),
        ]
        return all_of if request.need.gpus else all_of[1:]

    def _all_fit(self, node: NodeInput, has: Room) -> bool:
        return all(fits(node, has) for _, fits in self._resources())

    # --- constraints

    def constraints(self) -> Iterable[Constraint]:
        """One a thing asked, in the filters' order."""
        for step in self.static:
            yield self._static(step)
        yield self._up()
        single = [self._free(what, fits) for what, fits in self._resources()]
        yield from single
        if all(each.met for each in single) and not self._together().met:
            yield self._together()
        yield from self._levels()
        yield from self.kept.constraints(self.late, self.needed)

    def _static(self, step: Sieved) -> Constraint:
        request, left = self.request, step.left
        before = len(left) + len(step.out)
        best = f"{_nodes(len(left))} of {before}" if step.out else _nodes(len(left))
        among = left or step.out
        if step.filter.name == "gpus" and among:
            best += f"; the most on one is {max(self.asked[n.name].bit_count() for n in among)}"
        elif step.filter.name == "cores" and among:
            best += f"; the most on one is {max(n.inventory.cpus for n in among)}"
        elif step.filter.name == "memory" and among:
            best += f"; the most on one is {max(n.inventory.memory_mib for n in among)} MiB"
        elif step.filter.name == "gpu_model" and not left:
            best += f"; there: {', '.join(sorted({g.model for n in step.out for g in n.inventory.gpus})) or 'none'}"
        met = len(left) >= self.needed
        needed = f"{_nodes(self.needed)} {_wanted(request, step.filter.name)}"
        return Constraint(step.filter.name, needed, best, met, self.given.now if met else None)

    def _up(self) -> Constraint:
        """Nodes that may take something new now."""
        left = self.state[-1].left
        out = [node for step in self.state for node in step.out]
        missing = [node.name for node in out if node.name in self.named]
        best = f"{_nodes(len(left))} of {len(left) + len(out)}"
        if out:
            first = missing or [node.name for node in out]
            best += f"; not now: {_few(first)}"
        met = len(left) >= self.needed and not missing
        drained = tuple(Holder(f"{n.name} is {_word(n)}", 1, None) for n in out[:_HOLDERS]) if not met else ()
        needed = f"{_nodes(self.needed)} that {'is' if self.needed == 1 else 'are'} up"
        return Constraint("state", needed, best, met, self.given.now if met else None, drained)

    def _free(self, what: str, fits: Fits) -> Constraint:
        """One resource by itself, on the nodes that are up and could hold it when idle."""
        count = sum(fits(each.node, each.steps[0][1]) for each in self.times)
        best = f"{count} such {'node' if count == 1 else 'nodes'} of {len(self.times)}"
        if self.times:
            best += f"; the most on one is {max(_amount(what, each.steps[0][1]) for each in self.times)}"
            best += " MiB" if what == "memory" else ""
        needed = f"{_nodes(self.needed)} with {_need_text(self.request, what, self.times)} free"
        return self._timed(f"free_{what}", needed, best, fits)

    def _together(self) -> Constraint:
        count = sum(self._all_fit(each.node, each.steps[0][1]) for each in self.times)
        needed = f"{_nodes(self.needed)} with all of that free at once"
        best = f"{count} such {'node' if count == 1 else 'nodes'} of {len(self.times)}"
        return self._timed("free", needed, best, self._all_fit)

    def _timed(self, name: str, needed: str, best: str, fits: Fits) -> Constraint:
        at = enough_at(self.times, fits, self.needed, self.named)
        met = at == self.given.now
        return Constraint(name, needed, best, met, at, () if met else self._holders(name, fits))

    def _holders(self, name: str, fits: Fits) -> tuple[Holder, ...]:
        """Who holds something on nodes that do not fit now: those that give back first."""
        until: dict[str, Instant | None] = {}
        nodes: dict[str, int] = {}
        for each in self.times:
            if fits(each.node, each.steps[0][1]):
                continue
            for taken in each.taken:
                if name == "free_gpus" and not taken.share.gpus:
                    continue
                nodes[taken.who] = nodes.get(taken.who, 0) + 1
                until[taken.who] = taken.until
        order = sorted(nodes, key=lambda who: (until[who] is None, until[who] or 0, who))
        return tuple(Holder(who, nodes[who], until[who]) for who in order[:_HOLDERS])

    def _levels(self) -> Iterable[Constraint]:
        """The topology level that the job may not cross."""
        level, levels = self.request.level, self.given.levels
        if not level or level not in levels:
            return
        at = levels.index(level)
        domains = by_domain(self.times, {n.name: " ".join(n.switches[at:]) for n in self.given.nodes})
        counts = {name: sum(self._all_fit(t.node, t.steps[0][1]) for t in of) for name, of in domains.items()}
        most = max(counts.values(), default=0)
        firsts = [
            when
            for of in domains.values()
            if self.named <= {t.node.name for t in of}
            and (when := enough_at(of, self._all_fit, self.needed, self.named)) is not None
        ]
        earliest = min(firsts, default=None)
        met = earliest == self.given.now
        best = f"the best {level} of {len(domains)} has {most} such now"
        yield Constraint("level", f"{_nodes(self.needed)} in one {level}", best, met, earliest)


def _word(node: NodeInput) -> str:
    return "short of GPUs" if node.availability is Availability.UP else node.availability.value


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _few(names: Sequence[NodeName]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _wanted(request: Request, what: str) -> str:
    """What a static filter asks of each node."""
    need = request.need
    memory = f"{need.mem_mib} MiB" if need.mem_rule is MemoryRule.EXACT else need.mem_rule.value
    texts = {
        "partition": f"in partition {request.partition}",
        "exclude": f"other than {_few(request.exclude)}",
        "nodelist": f"of {_few(request.nodelist)}",
        "features": f"with {request.constraint}",
        "gpu_model": f"with GPU model {request.gpu_model}" if request.gpu_model else "with GPUs",
        "gpu_memory": f"with GPUs of {request.gpu_memory_mib} MiB or more",
        "gpus": f"with {need.gpus} GPU{'s' * (need.gpus != 1)}",
        "cores": f"with {need.cpus} core{'s' * (need.cpus != 1)}",
        "memory": f"with memory: {memory}",
    }
    return texts[what]


def _need_text(request: Request, what: str, times: Sequence[NodeTimes]) -> str:
    need = request.need
    if what == "gpus":
        kind = f"{request.gpu_model} " if request.gpu_model else ""
        return f"{need.gpus} {kind}GPU{'s' * (need.gpus != 1)}"
    if what == "cores":
        return f"{need.cpus} core{'s' * (need.cpus != 1)}"
    sizes = sorted({memory_of(request, each.node.inventory) for each in times})
    return f"{sizes[0] if len(sizes) < 2 else f'{sizes[0]} to {sizes[-1]}'} MiB of memory" if sizes else "its memory"


def _amount(what: str, has: Room) -> int:
    return has.gpus.bit_count() if what == "gpus" else has.cores if what == "cores" else has.memory


def place_in(queue: Sequence[QueueInput], job: JobId) -> int:
    """The job's place among those that may start, from 1; 0 = not among them."""
    return next((at for at, each in enumerate(queue, 1) if each.job == job), 0)
