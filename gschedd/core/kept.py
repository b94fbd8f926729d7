"""What is kept for others, for `explain`: administrators' reservations, and planned starts of jobs before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gsched.values.explanation import Constraint, Holder
from gsched.values.ids import Instant, NodeName
from gschedd.core.inputs import NodeInput, PassInput, Plan, PlannedStart, QueueInput, ReservationInput
from gschedd.core.sieve import Filter, Sieved, memory_of
from gschedd.core.timeline import NodeTimes

_NAMED = 8  # holders; the rest is left out


class Kept:
    """What one job may not take, though it is free."""

    def __init__(
        self,
        given: PassInput,
        plan: Plan,
        job: QueueInput,
        times: Mapping[NodeName, NodeTimes],
        asked: Mapping[NodeName, int],
    ) -> None:
        """times: of the nodes that are up and could hold it. asked: mask of each node's GPUs of the kind asked."""
        self.given, self.job, self.times, self.asked = given, job, times, asked
        self.request = job.request
        limit_s = job.request.time_limit_s
        self.limit = limit_s * 1000 if limit_s else None  # ms
        self.own = next((r for r in given.reservations if r.name == job.request.reservation), None)
        self.others = [r for r in given.reservations if r.name != job.request.reservation or r.maint]
        self.before = _planned_before(plan, job)
        self.mine = next((p.at for p in plan.planned if p.job == job.job), None)
        self.queue = {each.job: each.request for each in given.queue}

    # --- the filters

    def filters(self) -> Iterable[Filter]:
        own = self.request.reservation
        if own:
            began = self.own is not None and self.own.start <= self.given.now
            inside = frozenset(hold.node for hold in self.own.holds) if self.own is not None and began else frozenset()
            text = f"outside reservation {own}" if began else f"reservation {own} has not begun"
            yield Filter("reservation", text, lambda node: node.name in inside)
        if any(self._meets(other, self.given.now) for other in self.others):
            yield Filter("reserved", "reserved", self._now_unreserved)
        if self.before:
            yield Filter("planned", "kept for jobs before it", self._unplanned)

    def _meets(self, other: ReservationInput, start: Instant) -> bool:
        """Whether a run from `start` would be in the way of a reservation."""
        ends_before = self.limit is not None and start + self.limit <= other.start
        return not ends_before and (other.end is None or other.end > start)

    def _unreserved(self, name: NodeName, start: Instant, gpus: int) -> bool:
        """Whether `gpus` (a mask) of the node hold the job beside all reservations, for a run from `start`."""
        for other in self.others:
            for hold in other.holds:
                if hold.node == name and self._meets(other, start):
                    if hold.gpus < 0:
                        return False
                    gpus &= ~hold.gpus
        return gpus.bit_count() >= self.request.need.gpus

    def _now_unreserved(self, node: NodeInput) -> bool:
        return self._unreserved(node.name, self.given.now, self.times[node.name].at(self.given.now).gpus)

    def _unplanned(self, node: NodeInput) -> bool:
        """Whether the node still has room for each planned start on it, beside this job."""
        return all(self._holds_both(node, planned) for planned in self.before if node.name in planned.nodes)

    def _holds_both(self, node: NodeInput, planned: PlannedStart) -> bool:
        other = self.queue.get(planned.job)
        ends_before = self.limit is not None and self.given.now + self.limit <= planned.at
        if other is None or ends_before:
            return True
        has, need = self.times[node.name].at(planned.at), self.request.need
        memory = memory_of(self.request, node.inventory) + memory_of(other, node.inventory)
        return (
            has.gpus.bit_count() >= need.gpus + other.need.gpus
            and has.cores >= need.cpus + other.need.cpus
            and has.memory >= memory
        )

    # --- what is said of them

    def constraints(self, steps: Sequence[Sieved], needed: int) -> Iterable[Constraint]:
        say: dict[str, Callable[[Sieved, int], Constraint]] = {
            "reservation": self._said_of_own,
            "reserved": self._said_of_others,
            "planned": self._said_of_planned,
        }
        for step in steps:
            if step.filter.name != "planned" or step.left or step.out:
                yield say[step.filter.name](step, needed)

    def _by_itself(self, step: Sieved) -> int:
        """How many of the nodes that are up pass a filter, whatever runs there."""
        if step.filter.name == "reservation":
            return sum(step.filter.keeps(each.node) for each in self.times.values())
        return sum(self._unreserved(name, self.given.now, self.asked[name]) for name in self.times)

    def _said_of_own(self, step: Sieved, needed: int) -> Constraint:
        count = self._by_itself(step)
        met = count >= needed
        later = self.own.start if self.own is not None and self.own.start > self.given.now else None
        text = f"{needed} inside reservation {self.request.reservation}"
        return Constraint("reservation", text, self._of_up(count), met, self.given.now if met else later)

    def _of_up(self, count: int) -> str:
        return f"{count} of {len(self.times)} that are up"

    def _said_of_others(self, step: Sieved, needed: int) -> Constraint:
        count = self._by_itself(step)
        met = count >= needed
        holders = [
            Holder(f"reservation {r.name}", len({hold.node for hold in r.holds}), r.end)
            for r in self.others
            if self._meets(r, self.given.now)
        ]
        earliest = self.given.now if met else self._after_reservations(needed)
        text = f"{needed} not reserved for others while it would run"
        return Constraint("reserved", text, self._of_up(count), met, earliest, () if met else tuple(holders[:_NAMED]))

    def _after_reservations(self, needed: int) -> Instant | None:
        """When so many nodes have room for a whole run outside every reservation; None = not known."""
        ends = sorted({r.end for r in self.others if r.end is not None and r.end > self.given.now})
        firsts = []
        for name, each in self.times.items():
            starts = sorted({*(when for when, _ in each.steps), *ends})
            first = next(
                (at for at in starts if self._fits(name, at) and self._unreserved(name, at, each.at(at).gpus)), None
            )
            if first is not None:
                firsts.append(first)
        return sorted(firsts)[needed - 1] if 0 < needed <= len(firsts) else None

    def _fits(self, name: NodeName, start: Instant) -> bool:
        node, has = self.times[name].node, self.times[name].at(start)
        need = self.request.need
        return (
            has.gpus.bit_count() >= need.gpus
            and has.cores >= need.cpus
            and has.memory >= memory_of(self.request, node.inventory)
        )

    def _over(self, planned: PlannedStart) -> Instant | None:
        """When a planned job gives its nodes back at the latest; None = not known."""
        other = self.queue.get(planned.job)
        return Instant(planned.at + other.time_limit_s * 1000) if other is not None and other.time_limit_s else None

    def _said_of_planned(self, step: Sieved, needed: int) -> Constraint:
        met = len(step.left) >= needed
        out = {node.name for node in step.out}
        holders = [
            Holder(f"job {planned.job}, planned", count, self._over(planned))
            for planned in self.before
            if (count := sum(node in out for node in planned.nodes))
        ]
        text = f"{needed} not kept for jobs before it"
        earliest = self.given.now if met else self.mine
        return Constraint("planned", text, _left(step), met, earliest, () if met else tuple(holders[:_NAMED]))


def _planned_before(plan: Plan, job: QueueInput) -> list[PlannedStart]:
    """Planned starts of jobs before it in the order: in a plan they stand in that order."""
    before: list[PlannedStart] = []
    for planned in plan.planned:
        if planned.job == job.job:
            break
        before.append(planned)
    return before


def _left(step: Sieved) -> str:
    return f"{len(step.left)} of {len(step.left) + len(step.out)} that fit otherwise"
