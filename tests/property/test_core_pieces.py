"""Fractions and MIG instances: taken as the twin takes them, and no slice, thousandth or MiB is given twice."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gsched.values.ids import Instant, JobId, RunKey, RunNo
from gsched.values.job import Request
from gsched.values.node import Gpu
from gsched.values.run import NodeShare
from gschedd.core.board import build_snapshot
from gschedd.core.inputs import HoldInput, NodeInput, Policy
from gschedd.core.kernels.arrays import (
    BITS_GE,
    FOREVER,
    NODE_FREE_CORES,
    NODE_FREE_GPUS,
    NODE_FREE_MEMORY,
    SHARE_GPUS,
    SHARE_NODE,
    SOMEDAY,
    USED_SHARES,
)
from gschedd.core.kernels.bits import has_nb
from gschedd.core.kernels.pieces import SHARE_ROWS, SHARE_SLICES, start_pieces_nb
from gschedd.core.mig import mig_model
from gschedd.core.pieces import make_pieces, piece_kind, piece_share
from gschedd.core.pieces_twin import PiecesTwin
from gschedd.core.workspace import make_workspace
from tests.builders.cluster import NOW, Cluster, inventory, request
from tests.builders.clusters_at_random import World, worlds

PROFILES = ("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.5gb")


def fraction(milli: int, mib: int = 0, **more: int) -> Request:
    """Of one GPU on each node."""
    asked = request(gpus=1, memory=1, **more)  # type: ignore[arg-type]  # counts only
    return replace(asked, need=replace(asked.need, gpu_milli=milli, gpu_mem_mib=mib))


def instance(profile: str, **more: int) -> Request:
    """Of that profile, on each node."""
    asked = request(gpus=1, memory=1, **more)  # type: ignore[arg-type]  # counts only
    return replace(asked, need=replace(asked.need, mig_profile=profile))


@st.composite
def piece_worlds(draw: st.DrawFn) -> World:
    """Half of the jobs want pieces; some GPUs are cut already."""
    world = draw(worlds())
    queue = []
    for job in world.queue:
        need = job.request.need
        if draw(st.booleans()):
            milli, mib = draw(st.sampled_from([(500, 0), (250, 0), (300, 50_000), (125, 9000), (999, 0)]))
            piece = draw(st.sampled_from([replace(need, gpus=1, gpu_milli=milli, gpu_mem_mib=mib)] * 2 + [
                replace(need, gpus=1, mig_profile=draw(st.sampled_from(PROFILES))),
            ]))  # fmt: skip
            job = replace(job, request=replace(job.request, need=piece))
        queue.append(job)
    holds = list(world.holds)
    for node in world.nodes:
        holds += draw(_cut(node, holds))
    return replace(world, holds=tuple(holds), queue=tuple(queue))


@st.composite
def _cut(draw: st.DrawFn, node: NodeInput, holds: list[HoldInput]) -> list[HoldInput]:
    """Runs with pieces of one GPU that nobody holds."""
    taken = 0
    for hold in holds:
        for share in hold.shares:
            taken |= share.gpus if share.node == node.name else 0
    free = [gpu for gpu in node.inventory.gpus if not taken >> gpu.index & 1]
    if not free or draw(st.booleans()):
        return []
    gpu = draw(st.sampled_from(free))
    shares = draw(st.sampled_from([_fractions(node, gpu), _instances(node, gpu)]))
    found = []
    for number, share in enumerate(shares):
        end = draw(st.sampled_from([None, 20_000, 60_000, 300_000]))
        key = RunKey(JobId(5000 + 10 * len(holds) + number), RunNo(1))
        found.append(HoldInput(key, (share,), None if end is None else Instant(NOW + end)))
    return found


def _fractions(node: NodeInput, gpu: Gpu) -> list[NodeShare]:
    each = [(250, 20_000), (400, 30_000)]
    return [NodeShare(node.name, 0, 0, 1 << gpu.index, gpu_milli=milli, gpu_mem_mib=mib) for milli, mib in each]


def _instances(node: NodeInput, gpu: Gpu) -> list[NodeShare]:
    return [NodeShare(node.name, 0, 0, 1 << gpu.index, slices=mask) for mask in (0x40, 0x03)]


class Pass:
    """The pieces of a queue taken one job after the other, by the kernel and by its twin."""

    def __init__(self, world: World) -> None:
        self.snapshot = build_snapshot(world.nodes, world.holds, world.queue)
        self.work = make_workspace(self.snapshot, world.policy, NOW)
        self.pieces = make_pieces(self.snapshot)
        self.twin = PiecesTwin(self.snapshot, world.policy, NOW)
        self.shares = np.zeros((SHARE_ROWS, 200), dtype=np.int64)
        self.starts: dict[int, list[NodeShare]] = {}  # by row of the queue

    def start(self, j: int) -> None:
        """Try row j of the queue both ways."""
        work, c, limit = self.work, int(self.snapshot.queue.cls[j]), int(self.snapshot.queue.limit[j])
        first = int(work.used[USED_SHARES])
        until = SOMEDAY if limit >= SOMEDAY else NOW + limit
        end = FOREVER if limit >= SOMEDAY else until
        members, free = start_pieces_nb(
            work.nodes, work.bits, work.classes, self.pieces, c, j, work.held, work.ahead, work.used, self.shares,
            NOW, end, until,
        )  # fmt: skip
        taken, free_twin = self.twin.start_pieces_py(j, c, limit)
        if members < self.snapshot.classes.least[c]:
            assert (taken, free) == ([], free_twin)
            assert work.used[USED_SHARES] == first
            return
        rows = self.shares[:, first : first + members]
        assert [tuple(row) for row in rows[[SHARE_NODE, SHARE_GPUS, SHARE_SLICES]].T.tolist()] == [
            (piece.node, 1 << piece.gpu, piece.slices) for piece in taken
        ]
        cores = int(self.snapshot.classes.cores[c])
        self.starts[j] = [
            piece_share(NodeShare(self.snapshot.names[n], cores, memory, gpus), self.pieces, c, n, slices)
            for n, gpus, memory, _, slices in rows.T.tolist()
        ]

    def all(self) -> Pass:
        for j in range(self.snapshot.queue.job.size):
            if piece_kind(self.snapshot.requests[int(self.snapshot.queue.cls[j])]):
                self.start(j)
        return self


@settings(max_examples=60)
@given(piece_worlds())
def test_taking_pieces_agrees_with_its_twin_and_leaves_what_it_says(world: World) -> None:
    done = Pass(world).all()
    nodes = done.work.nodes
    for n in range(len(done.snapshot.names)):
        room = nodes[NODE_FREE_GPUS, n], nodes[NODE_FREE_CORES, n], nodes[NODE_FREE_MEMORY, n]
        assert room == done.twin.running_room_py(n, NOW)
        for g in range(16):
            assert has_nb(done.work.bits, BITS_GE + g, n) == (int(room[0]).bit_count() >= g)


@settings(max_examples=60)
@given(piece_worlds())
def test_no_slice_thousandth_or_mib_is_given_twice(world: World) -> None:
    shares = [share for hold in world.holds for share in hold.shares]
    shares += [share for found in Pass(world).all().starts.values() for share in found]
    for node in world.nodes:
        here = [share for share in shares if share.node == node.name]
        assert sum(share.cpus for share in here) <= node.inventory.cpus
        for gpu in node.inventory.gpus:
            _assert_held_once(gpu, [share for share in here if share.gpus >> gpu.index & 1])


def _assert_held_once(gpu: Gpu, shares: list[NodeShare]) -> None:
    """By one run whole, or in fractions, or in instances."""
    whole = [share for share in shares if not share.gpu_milli and not share.slices]
    cut = [share for share in shares if share.slices]
    fractions = [share for share in shares if share.gpu_milli]
    assert (len(whole) > 0) + (len(cut) > 0) + (len(fractions) > 0) <= 1
    assert len(whole) <= 1
    assert sum(share.gpu_milli for share in fractions) <= 1000
    assert sum(share.gpu_mem_mib for share in fractions) <= gpu.memory_mib
    assert not any(a.slices & b.slices for a, b in combinations(cut, 2))
    model = mig_model(gpu)
    for share in cut:
        assert model is not None
        assert any(share.slices in profile.placements for profile in model.profiles)


@settings(max_examples=40)
@given(piece_worlds())
def test_a_piece_is_what_was_asked(world: World) -> None:
    done = Pass(world).all()
    nodes = {node.name: node for node in world.nodes}
    for j, shares in done.starts.items():
        request = done.snapshot.requests[int(done.snapshot.queue.cls[j])]
        need = request.need
        assert len({share.node for share in shares}) == len(shares) >= request.nodes_min
        for share in shares:
            (gpu,) = (gpu for gpu in nodes[share.node].inventory.gpus if share.gpus == 1 << gpu.index)
            if need.mig_profile:
                model = mig_model(gpu)
                assert model
                profile = model.profile(need.mig_profile)
                assert profile
                assert share.slices in profile.placements
            else:
                wanted = need.gpu_mem_mib or gpu.memory_mib * need.gpu_milli // 1000
                assert (share.gpu_milli, share.gpu_mem_mib, share.slices) == (need.gpu_milli, wanted, 0)


def taken_of(cluster: Cluster) -> dict[str, list[NodeShare]]:
    """What the cluster's pending jobs take, by their names."""
    world = World(tuple(cluster.nodes.values()), tuple(cluster.holds), tuple(cluster.queue), Policy())
    done = Pass(world).all()
    return {cluster.names[JobId(int(done.snapshot.queue.job[j]))]: shares for j, shares in done.starts.items()}


def test_pieces_collect_on_few_gpus() -> None:
    cluster = Cluster(2, inventory(gpus=2))
    for number in range(4):
        cluster.pending(f"half{number}", fraction(500))
    taken = taken_of(cluster)
    assert [taken[f"half{number}"][0].gpus for number in range(4)] == [1, 1, 2, 2]
    assert len({shares[0].node for shares in taken.values()}) == 1


def test_seven_small_instances_fill_one_gpu_and_the_eighth_goes_to_another() -> None:
    cluster = Cluster(1, inventory(gpus=2))
    for number in range(8):
        cluster.pending(f"i{number}", instance("1g.10gb"))
    cluster.pending("big", instance("7g.80gb"))
    taken = taken_of(cluster)
    assert [taken[f"i{number}"][0].gpus for number in range(8)] == [1] * 7 + [2]
    slices = [taken[f"i{number}"][0].slices for number in range(8)]
    assert slices[0] == slices[7] == 0x40
    assert sum(slices[:7]) == 0x7F
    assert "big" not in taken


def test_a_gang_of_fractions_is_on_different_nodes_or_takes_nothing() -> None:
    cluster = Cluster(2, inventory(gpus=1))
    cluster.pending("three", fraction(600, nodes=3))
    cluster.pending("two", fraction(600, nodes=2))
    taken = taken_of(cluster)
    assert {name: [share.node for share in shares] for name, shares in taken.items()} == {"two": ["n1", "n2"]}
