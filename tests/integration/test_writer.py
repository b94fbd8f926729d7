"""The writer's thread: order, what it does while the store is away, and how it ends."""

from __future__ import annotations

import queue
import sqlite3
from pathlib import Path

import pytest

from gschedd.lifecycle.changes import PutJob
from gschedd.store.journal import Deposed, OutOfOrder
from gschedd.store.memory import MemoryJournal
from gschedd.store.sql import FILE_NAME, SqlStore
from gschedd.store.writer import Fatal, Unconfirmed, Writer, WriterSaid, Written
from tests.store_values import NOW, batch, job


class Heard:
    """What the writer said, in order."""

    def __init__(self) -> None:
        self.said: queue.Queue[WriterSaid] = queue.Queue()

    def next(self) -> WriterSaid:
        return self.said.get(timeout=10)


def memory() -> MemoryJournal:
    journal = MemoryJournal()
    journal.open("here", NOW, 300, 600)
    return journal


def started(journal: MemoryJournal | SqlStore) -> tuple[Writer, Heard]:
    heard = Heard()
    writer = Writer(journal, heard.said.put)
    writer.start()
    return writer, heard


def test_batches_become_durable_in_order_and_each_is_told() -> None:
    journal = memory()
    writer, heard = started(journal)
    for number in range(1, 51):
        writer.submit(batch(number, PutJob(job(number))))
    assert [heard.next() for _ in range(50)] == [Written(batch(n).number) for n in range(1, 51)]
    assert writer.stop()
    assert [b.number for b in journal.batches] == list(range(1, 51))


@pytest.mark.parametrize("stored", [True, False], ids=["was written all the same", "was not written"])
def test_a_batch_of_unknown_outcome_is_written_once(stored: bool) -> None:
    journal = memory()
    journal.fail_next(stored=stored, cause="the connection was lost")
    journal.fail_next(stored=False, cause="the connection was lost")
    journal.fail_next(stored=False, cause="no route to the database")
    writer, heard = started(journal)
    writer.submit(batch(1, PutJob(job(1))))
    writer.submit(batch(2, PutJob(job(2))))
    assert [heard.next() for _ in range(4)] == [
        Unconfirmed("the connection was lost"),
        Unconfirmed("no route to the database"),
        Written(batch(1).number),
        Written(batch(2).number),
    ]
    assert writer.stop()
    assert [b.number for b in journal.batches] == [1, 2]


def test_a_deposed_writer_says_so_and_writes_nothing_more() -> None:
    journal = memory()
    writer, heard = started(journal)
    journal.open("another", NOW, 300, 600)
    writer.submit(batch(1, PutJob(job(1))))
    writer.submit(batch(1, PutJob(job(1)), term=2))
    said = heard.next()
    assert isinstance(said, Fatal)
    assert isinstance(said.error, Deposed)
    assert not writer.stop()
    assert journal.batches == []


def test_a_bug_ends_the_writer() -> None:
    writer, heard = started(memory())
    writer.submit(batch(5))
    said = heard.next()
    assert isinstance(said, Fatal)
    assert isinstance(said.error, OutOfOrder)
    writer.stop()


def test_a_writer_told_to_stop_while_the_store_is_away_does_not_claim_success() -> None:
    journal = memory()
    for _ in range(1000):
        journal.fail_next(stored=False)
    writer, heard = started(journal)
    writer.submit(batch(1))
    assert isinstance(heard.next(), Unconfirmed)
    assert not writer.stop()
    assert journal.batches == []


def test_a_locked_database_is_waited_for(tmp_path: Path) -> None:
    store = SqlStore("", tmp_path, busy_s=0.05)
    store.open("here", NOW, 300, 600)
    writer, heard = started(store)
    intruder = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
    intruder.execute("BEGIN IMMEDIATE")
    writer.submit(batch(1, PutJob(job(1))))
    said = heard.next()
    assert isinstance(said, Unconfirmed)
    assert "database is locked" in said.cause
    intruder.execute("ROLLBACK")
    intruder.close()
    assert heard.next() == Written(batch(1).number)
    assert writer.stop()
    assert store.open("here", NOW, 300, 600).jobs == (job(1),)
    store.close()
