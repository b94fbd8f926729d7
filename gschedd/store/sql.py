"""The store in a database. One thread writes (the writer's); readers call `accounting` from any thread.

Only SQLite so far. What is SQLite's own is in `sqlite.py`, but for the upsert's dialect, so that another database can
follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Table, bindparam, make_url, select, update
from sqlalchemy.dialects.sqlite import dialect, insert
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from gsched.protocol.messages import Accounting, AcctPage
from gsched.values.ids import BatchNo, Instant, Term
from gschedd.lifecycle.changes import Batch, Loaded
from gschedd.store import reading, schema, sqlite
from gschedd.store.journal import Deposed, StoreRefused, StoreUnavailable, check_follows
from gschedd.store.migrate import migrate
from gschedd.store.place import DirectoryLock, refuse_network_file_system
from gschedd.store.retention import Kept, delete_expired
from gschedd.store.rows import Row, key_text, rows_of

FILE_NAME: Final = "gschedd.sqlite"
READ_LIMIT_S: Final = 10.0  # a longer read keeps the log from being folded in

# The hot path's statements, compiled once: SQLAlchemy's own executemany takes twice the time (tests/bench).
_DIALECT: Final = dialect(paramstyle="qmark")
_STANDING: Final = str(
    select(schema.leader.c.term, schema.meta.c.batch, schema.meta.c.next_job_id)
    .join_from(schema.leader, schema.meta, schema.leader.c.id == schema.meta.c.id)
    .compile(dialect=_DIALECT)
)
_ADVANCE: Final = str(
    update(schema.meta)
    .values({"batch": bindparam("number"), "next_job_id": bindparam("next")})
    .compile(dialect=_DIALECT)
)
# Rows in one statement. Few sizes, so that the driver keeps each statement compiled; 64 rows of the widest table have
# 448 values, and an older SQLite takes 999.
_AT_ONCE: Final = (64, 8, 1)


class SqlStore:
    """See journal.Journal. `url` "" means a SQLite file in `state_dir`."""

    def __init__(self, url: str, state_dir: Path, *, busy_s: float = 5.0, read_limit_s: float = READ_LIMIT_S) -> None:
        self._file = _file(url, state_dir)
        self._lock = DirectoryLock(state_dir)
        self._read_limit_s = read_limit_s
        self._writing = sqlite.engine(self._file, begin="BEGIN IMMEDIATE", busy_s=busy_s)
        self._reading = sqlite.engine(self._file, begin="BEGIN", busy_s=busy_s)
        self._connection: Connection | None = None
        self._term = Term(0)
        self._in_doubt = False
        self._upserts = {table.name: _Upsert(table) for table in schema.metadata.sorted_tables}

    def open(self, holder: str, now: Instant, min_job_age_s: int, answers_kept_s: int) -> Loaded:
        """Lock the directory, bring the schema up to date, take the next term and load. See Journal.open."""
        refuse_network_file_system(self._file.parent)
        self._lock.take()
        sqlite.make_file(self._file)
        leader = schema.leader
        with self._transaction() as connection:
            migrate(connection)
            connection.execute(
                update(leader).values(term=leader.c.term + 1, holder=key_text(holder), taken=now, expires=0)
            )
            term = Term(connection.execute(select(leader.c.term)).scalar_one())
            loaded = reading.load(connection, term, now, min_job_age_s, answers_kept_s)
        self._term = term
        return loaded

    def write(self, batch: Batch) -> None:
        """One transaction: check the leader, write the rows, then number and counter. See Journal.write."""
        tables = rows_of(batch)  # packed before the transaction: the lock is held for less
        with self._transaction() as connection:
            term, last, next_job_id = connection.exec_driver_sql(_STANDING).one()
            if not check_follows(batch, Term(term), BatchNo(last), next_job_id):
                return
            for table, rows in tables:
                for statement, values in self._upserts[table.name].of(rows):
                    connection.exec_driver_sql(statement, values)
            connection.exec_driver_sql(_ADVANCE, (batch.number, batch.next_job_id))

    def last_batch(self) -> BatchNo:
        """See Journal.last_batch. After a failure it first makes sure that what it finds is on the disk."""
        with self._transaction() as connection:
            return BatchNo(connection.execute(select(schema.meta.c.batch)).scalar_one())

    def accounting(self, request: Accounting, now: Instant) -> AcctPage:
        """Answer gacct. On a connection of its own, from any thread; StoreUnavailable if it takes too long."""
        with sqlite.failures_sorted(self._file), self._reading.connect() as connection:
            sqlite.cut_after(connection, self._read_limit_s)
            try:
                return reading.accounting(connection, request, now)
            except DBAPIError as error:
                if not sqlite.interrupted(error):
                    raise
                text = f"the question took longer than {self._read_limit_s:g} s to answer: ask for fewer days or jobs"
                raise StoreUnavailable(text) from None

    def purge(self, now: Instant, kept: Kept, limit: int = 500) -> int:
        """Delete up to `limit` rows of each kind that are past their time; give how many went.

        From any thread, on a connection of its own: the writer waits for it, so it is to be short. Call again while
        it gives more than nothing.
        """
        with sqlite.failures_sorted(self._file), self._writing.connect() as connection, connection.begin():
            term = connection.execute(select(schema.leader.c.term)).scalar_one()
            if term != self._term:
                raise Deposed(self._term, Term(term))
            return delete_expired(connection, now, kept, limit)

    def close(self) -> None:
        """Close the connection and let another gschedd have the directory."""
        self._drop_connection()
        self._writing.dispose()
        self._reading.dispose()
        self._lock.release()

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._writing.connect()
            if self._in_doubt:
                sqlite.fold_log(self._connection)
                self._in_doubt = False
        return self._connection

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """One transaction on the writing connection. After any failure the connection is dropped."""
        try:
            with sqlite.failures_sorted(self._file):
                connection = self._connected()
                with connection.begin():
                    yield connection
        except BaseException:
            self._in_doubt = True
            self._drop_connection()
            raise


def _file(url: str, state_dir: Path) -> Path:
    """Find the database's file. Raises StoreRefused for a URL that is not a SQLite file."""
    if not url:
        return state_dir / FILE_NAME
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise StoreRefused("controller.database is not a database URL; expected is sqlite:////path/to/file") from None
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        kind = parsed.get_backend_name()
        raise StoreRefused(
            f"controller.database names {kind}: only a SQLite file is supported, sqlite:////path/to/file"
        )
    return Path(parsed.database)


class _Upsert:
    """SQL that inserts rows of one table or replaces those under their keys, many in one statement.

    Between two statements the driver takes Python's lock again, and waits while the loop computes: few are better.
    """

    def __init__(self, table: Table) -> None:
        statement = insert(table).values({column.name: None for column in table.columns})
        changed = {c.name: statement.excluded[c.name] for c in table.columns if not c.primary_key}
        keys = [c.name for c in table.primary_key.columns]
        one = str(statement.on_conflict_do_update(index_elements=keys, set_=changed).compile(dialect=_DIALECT))
        head, tail = one.split(" VALUES ")
        row, rest = tail.split(") ", 1)
        self._of = {count: f"{head} VALUES {', '.join([row + ')'] * count)} {rest}" for count in _AT_ONCE}

    def of(self, rows: Sequence[Row]) -> Iterator[tuple[str, tuple[object, ...]]]:
        """Statements with their values, for all of `rows`; a key may not be in them twice."""
        done = 0
        for count in _AT_ONCE:
            while len(rows) - done >= count:
                yield self._of[count], tuple(chain.from_iterable(rows[done : done + count]))
                done += count
