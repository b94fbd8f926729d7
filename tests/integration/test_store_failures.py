"""Disks and locks that fail: the batch is refused as "try later", and later it is written once."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from gsched.protocol.messages import Accounting
from gsched.values.ids import JobId
from gsched.values.job import JobPayload
from gschedd.lifecycle.changes import PutJob, PutPayload
from gschedd.store.journal import StoreUnavailable
from gschedd.store.sql import FILE_NAME, SqlStore
from tests.store_values import NOW, batch, job


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    made = SqlStore("", tmp_path, busy_s=0.05)
    made.open("here", NOW, 300, 600)
    yield made
    made.close()


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Writes past `size` fail, as on a full disk: Python ignores SIGXFSZ, so they get EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_try_later_and_the_batch_is_written_once_there_is_room(store: SqlStore) -> None:
    store.write(batch(1, PutJob(job(1))))
    big = batch(2, PutJob(job(2)), PutPayload(JobId(2), JobPayload(b"#!" + b"x" * 2_000_000)))
    with files_of_at_most(500_000), pytest.raises(StoreUnavailable, match="does not take it"):
        store.write(big)
    assert store.last_batch() == 1
    store.write(big)
    store.write(big)
    assert [j.id for j in store.open("here", NOW, 300, 600).jobs] == [1, 2]


def test_while_the_disk_stays_full_every_try_is_try_later(store: SqlStore) -> None:
    store.write(batch(1, PutJob(job(1))))
    big = batch(2, PutJob(job(2)), PutPayload(JobId(2), JobPayload(b"#!" + b"x" * 2_000_000)))
    with files_of_at_most(40_000):  # more than the index, less than the tables
        with pytest.raises(StoreUnavailable, match="does not take it"):
            store.write(big)
        for _ in range(2):  # the log cannot be folded in either
            with pytest.raises(StoreUnavailable, match="does not take it"):
                store.last_batch()
    assert store.last_batch() == 1
    store.write(big)
    assert store.last_batch() == 2


def test_a_locked_database_is_try_later(store: SqlStore, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None) as intruder:
        intruder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            store.write(batch(1, PutJob(job(1))))
        with pytest.raises(StoreUnavailable, match="locked"):
            store.last_batch()
        intruder.execute("ROLLBACK")
    intruder.close()
    assert store.last_batch() == 0
    store.write(batch(1, PutJob(job(1))))
    assert store.last_batch() == 1


def test_after_a_failure_the_number_is_not_told_before_the_log_is_on_the_disk(store: SqlStore, tmp_path: Path) -> None:
    """A failed sync may leave a commit in memory only; so the log is copied and synced first; a reader delays it."""
    store.write(batch(1, PutJob(job(1))))
    with files_of_at_most(4096), pytest.raises(StoreUnavailable):
        store.write(batch(2, PutJob(job(2))))
    with sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM meta").fetchall()
        with pytest.raises(StoreUnavailable, match="locked"):
            store.last_batch()
        reader.execute("ROLLBACK")
    reader.close()
    assert store.last_batch() == 1
    assert (tmp_path / f"{FILE_NAME}-wal").stat().st_size == 0


def test_a_bug_is_not_taken_for_a_failure_of_the_disk(store: SqlStore) -> None:
    broken = job(1)
    with pytest.raises(IntegrityError):
        store.write(batch(1, PutJob(type(broken)(**{**_fields(broken), "uid": None}))))
    assert store.last_batch() == 0


def test_no_script_or_environment_is_in_an_error(store: SqlStore) -> None:
    broken = type(job(1))(**{**_fields(job(1)), "uid": None, "detail": "SECRET"})
    with pytest.raises(IntegrityError) as caught:
        store.write(batch(1, PutJob(broken)))
    assert "SECRET" not in str(caught.value)


def test_a_question_that_takes_too_long_is_cut(tmp_path: Path) -> None:
    store = SqlStore("", tmp_path, read_limit_s=0.0)
    store.open("here", NOW, 300, 600)
    store.write(batch(1, *(PutJob(job(n, user=f"user{n}")) for n in range(1, 5000)), next_job_id=5000))
    with pytest.raises(StoreUnavailable, match="took longer than 0 s to answer: ask for fewer days or jobs"):
        store.accounting(Accounting(user="nobody"), NOW)
    store.close()


def _fields(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__struct_fields__}  # type: ignore[attr-defined]  # a Struct
