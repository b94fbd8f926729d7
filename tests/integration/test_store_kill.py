"""`kill -9` of a process that writes: what it was told is durable is there, whole; what it was not told is there
whole or not at all."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from gsched.protocol.messages import Accounting
from gsched.values.ids import JobId
from gschedd.lifecycle.changes import Loaded
from gschedd.store.sql import SqlStore
from tests.store_values import NOW

ROOT = Path(__file__).resolve().parents[2]


def child(state_dir: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store_child", str(state_dir), *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def acknowledged(process: subprocess.Popen[str], stop_at: int | None = None) -> tuple[int, int]:
    """Read what the child was told is durable: (batch, next job id). Kills it after `stop_at` batches."""
    last = (0, 1)
    assert process.stdout is not None
    for line in process.stdout:
        if not line.endswith("\n"):
            break  # killed in the middle of telling us
        batch, next_job_id = line.split()
        last = (int(batch), int(next_job_id))
        if stop_at is not None and last[0] >= stop_at:
            process.kill()
            stop_at = None
    process.wait(timeout=10)
    process.stdout.close()
    return last


def after_the_kill(state_dir: Path) -> tuple[Loaded, int]:
    """Open what the child left; give it and the last batch's number."""
    store = SqlStore("", state_dir)
    loaded = store.open("after", NOW, 300, 600)
    last = store.last_batch()
    store.close()
    return loaded, last


def whole(loaded: Loaded, per_batch: int) -> None:
    """Each batch is there whole, and the counter is above every id."""
    ids = list(range(1, loaded.batch * per_batch + 1))
    assert [job.id for job in loaded.jobs] == ids
    assert [id for id, _ in loaded.payloads] == ids
    assert len(loaded.answers) == len(ids)
    assert loaded.next_job_id == len(ids) + 1


@pytest.mark.parametrize("at", ["1", "2", "3", "4", "5", "6", "7", "commit", "written"])
def test_a_kill_at_any_place_of_a_transaction_leaves_it_whole_or_not_at_all(tmp_path: Path, at: str) -> None:
    process = child(tmp_path, 3, 4, at)
    told, _ = acknowledged(process)
    assert process.returncode == -9
    assert told == 3
    loaded, last = after_the_kill(tmp_path)
    assert last == loaded.batch == (4 if at == "written" else 3)
    whole(loaded, per_batch=3)


@pytest.mark.parametrize("seed", range(2))
def test_a_kill_from_outside_loses_nothing_that_was_acknowledged(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(2):  # the second child starts from what the first left
        before = after_the_kill(tmp_path)[0].batch
        told, _ = acknowledged(child(tmp_path, 7), stop_at=before + draw.randint(1, 60))
        loaded, _ = after_the_kill(tmp_path)
        assert loaded.batch >= told > before
        whole(loaded, per_batch=7)


def test_s1_of_10_000_acknowledged_submissions_none_is_lost_and_no_id_comes_again(tmp_path: Path) -> None:
    told, next_job_id = acknowledged(child(tmp_path, 100), stop_at=100)
    assert next_job_id > 10_000
    store = SqlStore("", tmp_path)
    loaded = store.open("after", NOW, 300, 600)
    assert loaded.batch >= told
    assert loaded.next_job_id >= next_job_id
    assert {job.id for job in loaded.jobs} >= set(range(1, 10_001))
    assert max(job.id for job in loaded.jobs) < loaded.next_job_id
    page = store.accounting(Accounting(after=JobId(9_999), limit=1), NOW)
    assert [row.job.id for row in page.rows] == [10_000]
    store.close()
