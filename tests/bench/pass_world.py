"""Clusters and queues for measuring passes, made from a seed: any size, 70 % busy, gangs of 1 to 1,024 GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gsched.values.ids import Instant, JobId, NodeName, RunKey, RunNo
from gsched.values.job import Request
from gsched.values.node import Inventory
from gsched.values.run import NodeShare
from gschedd.core.board import Board
from gschedd.core.inputs import Factors, HoldInput, NodeInput, QueueInput
from tests.builders.cluster import NOW, inventory, request

LEVELS: Final = ("leaf", "pod", "core")  # and the whole cluster: four
BUSY: Final = 0.7
MODELS: Final = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB")
FEATURES: Final = ((), ("ib",), ("ib", "nvme"), ("nvme",))
CORES_PER_GPU: Final = 8
MEMORY_PER_GPU: Final = 64_000  # MiB
_NVSWITCH: Final = "/".join(" ".join("X" if a == b else "NV18" for b in range(8)) for a in range(8))
_LIMITS_S: Final = (600, 3600, 14_400, 86_400, 172_800)
_GPUS: Final = (1, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 32, 64, 128, 256, 512, 1024)


class PassWorld(Struct, frozen=True):
    """What a board is told."""

    nodes: list[NodeInput]
    holds: list[HoldInput]
    requests: list[Request]  # the distinct ones
    queue: list[QueueInput]

    def board(self) -> Board:
        """A fresh board that was told all of it."""
        board = Board()
        board.set_levels(LEVELS)
        for node in self.nodes:
            board.put_node(node)
        for hold in self.holds:
            board.put_hold(hold)
        for job in self.queue:
            board.put_job(job)
        return board


def pass_world(nodes: int, pending: int, distinct: int, seed: int = 1) -> PassWorld:
    """`nodes` nodes of 8 GPUs and `pending` jobs of `distinct` requests, their limits left aside."""
    random = Random(seed)
    cluster = nodes_of(nodes, random)
    requests = [_request(cluster, random, number) for number in range(distinct)]
    return PassWorld(
        cluster, list(_holds(cluster, random)), requests, [queued(i + 1, requests, random) for i in range(pending)]
    )


def nodes_of(count: int, random: Random) -> list[NodeInput]:
    """Leaf switches of 32 nodes, pods of 8 leaves, cores of 8 pods; every leaf of one model and one set of features."""
    kinds = [inventory(links=_NVSWITCH, model=model) for model in MODELS]
    leaves: dict[int, tuple[Inventory, tuple[str, ...]]] = {}
    nodes = []
    for i in range(count):
        leaf = i // 32
        kind, features = leaves.setdefault(leaf, (random.choice(kinds), random.choice(FEATURES)))
        switches = (f"leaf{leaf}", f"pod{i // 256}", f"core{i // 2048}")
        nodes.append(NodeInput(NodeName(f"n{i}"), kind, ("main", f"part{leaf % 4}"), features, switches))
    return nodes


def queued(job: int, requests: Sequence[Request], random: Random) -> QueueInput:
    """One job that has waited for up to two days."""
    wanted = replace(random.choice(requests), time_limit_s=random.choice(_LIMITS_S))
    factors = Factors(eligible=Instant(NOW - random.randrange(172_800_000)), nice=random.choice((0, 0, 0, 100)))
    return QueueInput(JobId(job), wanted, factors=factors, account=f"account{job % 20}", uid=1000 + job % 100)


def every_one_different(world: PassWorld) -> PassWorld:
    """The same world with a class for each job: memory that differs by as little as it can."""
    queue = [
        replace(job, request=replace(job.request, need=replace(job.request.need, mem_mib=job.request.need.mem_mib + i)))
        for i, job in enumerate(world.queue)
    ]
    return replace(world, queue=queue)


def _holds(nodes: list[NodeInput], random: Random) -> Iterator[HoldInput]:
    """Runs in node order until 70 % of the GPUs are held: half by gangs on whole nodes, the rest in parts of nodes."""
    number, at = 0, 0
    while at < len(nodes):
        dice = random.random()
        number += 1
        if dice < BUSY / 4:  # a gang; four nodes on average
            members = nodes[at : at + random.choice((1, 1, 2, 4, 8, 8))]
            yield _hold(number, [(node, 0xFF) for node in members], random)
            at += len(members)
            continue
        if dice < BUSY / 4 + 0.45:  # smaller ones beside each other
            for mask in random.choice(((0x0F, 0xF0), (0x0F, 0x30), (0x03, 0x0C, 0x30), (0x01, 0x02, 0xF0), (0x7F,))):
                number += 1
                yield _hold(number, [(nodes[at], mask)], random)
        at += 1


def _hold(number: int, members: Sequence[tuple[NodeInput, int]], random: Random) -> HoldInput:
    shares = tuple(
        NodeShare(node.name, CORES_PER_GPU * mask.bit_count(), MEMORY_PER_GPU * mask.bit_count(), mask)
        for node, mask in members
    )
    end = Instant(NOW + 1000 * random.randint(60, 172_800))
    return HoldInput(
        RunKey(JobId(10_000_000 + number), RunNo(1)), shares, end, f"account{number % 20}", started=Instant(NOW - 1000)
    )


def _request(nodes: list[NodeInput], random: Random, number: int) -> Request:
    """Each differs from the others in its memory at least."""
    total = random.choice([gpus for gpus in _GPUS if gpus <= max(8, 2 * len(nodes))])
    gpus = min(total, 8)
    share = random.choice((4, 6, 8, 8))
    few = [node.name for node in random.sample(nodes, min(3, len(nodes)))]
    wanted = request(
        total // gpus,
        gpus,
        random.randint(1, share) * gpus,
        memory=(random.randrange(1_000, 56_000) * gpus) // 4096 * 4096 + number % 4096,
        partition=random.choice(("main", "main", "main", "part0", "part1", "part2", "part3")),
        model=random.choice(("", "", "h100", "a100")),
        exclude=few if random.random() < 0.05 else (),
        constraint=random.choice(("", "", "", "ib", "ib&nvme", "ib|nvme")),
    )
    return replace(wanted, level=random.choice(("", "", "", "", "pod", "leaf" if total <= 256 else "core")))
