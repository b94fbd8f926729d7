"""A ring all-reduce over TCP, to be started by grun: every rank ends with the sum of all ranks' numbers.

    grun python3 allreduce.py

It needs what gsched gives to each task: SLURM_PROCID, SLURM_NTASKS, MASTER_ADDR, MASTER_PORT. Rank 0 listens there
until it knows where everybody is; then each rank talks to its right neighbour only, as real collectives do. Standard
library only.
"""

from __future__ import annotations

import json
import os
import socket
import time
from typing import BinaryIO

RANK = int(os.environ["SLURM_PROCID"])
SIZE = int(os.environ["SLURM_NTASKS"])
MASTER = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
STEPS = 20  # as a training run would: again and again, with some work between
WORK_S = 0.1
PATIENCE_S = 30.0


def main() -> None:
    server = socket.create_server(MASTER if RANK == 0 else ("", 0), backlog=SIZE)
    server.settimeout(PATIENCE_S)
    table = gather(server) if RANK == 0 else announce(server)
    right = dial(table[(RANK + 1) % SIZE])
    left, _ = server.accept()
    left.settimeout(PATIENCE_S)
    stream = left.makefile("rb")
    for _ in range(STEPS):
        total = allreduce(RANK, right, stream)
        time.sleep(WORK_S)
    gpus = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu not in ("", "none")]
    print(
        f"rank {RANK:2d} of {SIZE} on {os.environ.get('SLURMD_NODENAME', '?')}: {len(gpus)} GPUs visible, sum {total}",
        flush=True,
    )


def gather(server: socket.socket) -> list[tuple[str, int]]:
    """Rank 0: learn every rank's address, then tell them all."""
    table = {0: MASTER}
    callers = []
    while len(table) < SIZE:
        caller, (host, _) = server.accept()
        caller.settimeout(PATIENCE_S)
        rank, port = json.loads(caller.makefile().readline())
        table[rank] = (host, port)
        callers.append(caller)
    addresses = [table[rank] for rank in range(SIZE)]
    for caller in callers:
        caller.sendall(json.dumps(addresses).encode() + b"\n")
        caller.close()
    return addresses


def announce(server: socket.socket) -> list[tuple[str, int]]:
    """Other ranks: tell rank 0 where we listen, learn where the others do."""
    with dial(MASTER) as master:
        master.sendall(json.dumps([RANK, server.getsockname()[1]]).encode() + b"\n")
        return [(host, port) for host, port in json.loads(master.makefile().readline())]


def dial(address: tuple[str, int]) -> socket.socket:
    """Connect, again and again until the other side listens."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(address, timeout=PATIENCE_S)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def allreduce(value: int, right: socket.socket, left: BinaryIO) -> int:
    """Pass numbers around the ring once; each rank adds up what comes by."""
    total = passing = value
    for _ in range(SIZE - 1):
        right.sendall(b"%d\n" % passing)
        passing = int(left.readline())
        total += passing
    return total


if __name__ == "__main__":
    main()
