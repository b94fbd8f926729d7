"""When each node has room for one request again, by the expected ends of what runs there; plain values, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from gsched.values.ids import Instant, NodeName
from gsched.values.job import Request
from gsched.values.run import NodeShare
from gschedd.core.inputs import NodeInput, PassInput, Plan
from gschedd.core.sieve import Room, Taken, room

Fits = Callable[[NodeInput, Room], bool]


class NodeTimes(Struct, frozen=True):
    """A node's room now and after each expected end there, in order of time."""

    node: NodeInput
    steps: tuple[tuple[Instant, Room], ...]  # the first one is now
    taken: tuple[Taken, ...]

    def at(self, instant: Instant) -> Room:
        """Room at an instant, if nothing new starts before it."""
        found = self.steps[0][1]
        for when, has in self.steps:
            if when > instant:
                break
            found = has
        return found

    def first(self, fits: Fits) -> Instant | None:
        """When the node first fits; None = not known."""
        return next((when for when, has in self.steps if fits(self.node, has)), None)


def taken_on(given: PassInput, plan: Plan) -> dict[NodeName, list[Taken]]:
    """What runs and this plan's starts hold of each node. An end that has passed counts as a little from now."""
    taken: dict[NodeName, list[Taken]] = {}
    soon = Instant(given.now + given.policy.kill_time_s * 1000)
    for hold in given.holds:
        end = hold.expected_end
        if end is not None and end <= given.now:
            end = soon
        _take(taken, f"job {hold.key.job}", hold.shares, end)
    limits = {job.job: job.request.time_limit_s for job in given.queue}
    for start in plan.starts:
        limit_s = limits.get(start.job, 0)
        _take(taken, f"job {start.job}", start.shares, Instant(given.now + limit_s * 1000) if limit_s else None)
    for claim in given.claims:
        _take(taken, f"a claim of job {claim.job}", claim.shares, claim.until)
    return taken


def _take(taken: dict[NodeName, list[Taken]], who: str, shares: Iterable[NodeShare], until: Instant | None) -> None:
    for share in shares:
        taken.setdefault(share.node, []).append(Taken(who, share, until))


def times_of(
    request: Request, node: NodeInput, asked: int, taken: Sequence[Taken], now: Instant, first_only: bool = False
) -> NodeTimes:
    """The node's room for this request over time. first_only: now is enough."""
    steps = [(now, room(request, node, asked, taken))]
    if not first_only:
        for end in sorted({each.until for each in taken if each.until is not None and each.until > now}):
            left = [each for each in taken if each.until is None or each.until > end]
            steps.append((end, room(request, node, asked, left)))
    return NodeTimes(node, tuple(steps), tuple(taken))


def enough_at(times: Sequence[NodeTimes], fits: Fits, count: int, named: frozenset[NodeName]) -> Instant | None:
    """When `count` nodes fit, those named among them; None = not known."""
    firsts: list[Instant] = []
    must: Instant | None = None
    found = 0
    for each in times:
        when = each.first(fits)
        if when is None:
            continue
        firsts.append(when)
        if each.node.name in named:
            found += 1
            must = when if must is None else max(must, when)
    if len(firsts) < count or found < len(named):
        return None
    latest = sorted(firsts)[count - 1] if count else None
    return max((when for when in (latest, must) if when is not None), default=None)


def by_domain(times: Sequence[NodeTimes], domain: Mapping[NodeName, str]) -> dict[str, list[NodeTimes]]:
    """The nodes by their domain; a node in none is by itself."""
    domains: dict[str, list[NodeTimes]] = {}
    for each in times:
        domains.setdefault(domain.get(each.node.name) or f"node {each.node.name}", []).append(each)
    return domains
