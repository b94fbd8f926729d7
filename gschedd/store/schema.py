"""The tables. Key and filter columns, and the whole value packed in `body`, so that a row is the value exactly.

Instants are milliseconds of wall time. Names that come from users are stored through `rows.key_text`, which every
database can hold. Change a table together with a new step in `migrations/versions`: a test compares the two.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, SmallInteger, String, Table, text

metadata: Final = MetaData()

meta: Final = Table(
    "meta",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),  # always 1: one row
    Column("batch", BigInteger, nullable=False),  # number of the last batch written
    Column("next_job_id", BigInteger, nullable=False),
)

leader: Final = Table(
    "leader",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),  # always 1: one row
    Column("term", BigInteger, nullable=False),
    Column("holder", String, nullable=False),
    Column("taken", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),  # 0 = never; used where controllers stand by
)

jobs: Final = Table(
    "jobs",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("uid", BigInteger, nullable=False),
    Column("username", String, nullable=False),
    Column("state", String, nullable=False),
    Column("submitted", BigInteger, nullable=False),
    Column("finished", BigInteger),  # when its final state was reached; NULL = unfinished
    Column("body", LargeBinary, nullable=False),
    Index("jobs_by_finished", "finished"),
)

job_scripts: Final = Table(
    "job_scripts",
    metadata,
    Column("job", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)

runs: Final = Table(
    "runs",
    metadata,
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    Column("no", BigInteger, primary_key=True, autoincrement=False),
    Column("closed", SmallInteger, nullable=False),  # 0 or 1
    Column("created", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("runs_live", "closed", sqlite_where=text("closed = 0"), postgresql_where=text("closed = 0")),
)

steps: Final = Table(
    "steps",
    metadata,
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    Column("run", BigInteger, primary_key=True, autoincrement=False),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)

nodes: Final = Table(
    "nodes",
    metadata,
    Column("name", String, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

reservations: Final = Table(
    "reservations",
    metadata,
    Column("name", String, primary_key=True),
    Column("closed", SmallInteger, nullable=False),  # 0 or 1
    Column("body", LargeBinary, nullable=False),
)

answers: Final = Table(
    "answers",
    metadata,
    Column("uid", BigInteger, primary_key=True, autoincrement=False),
    Column("request_id", String, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("answers_by_time", "at"),
    sqlite_with_rowid=False,  # one tree to write to in place of two
)

events: Final = Table(
    "events",
    metadata,
    Column("batch", BigInteger, primary_key=True, autoincrement=False),  # the batch that wrote it
    Column("line", BigInteger, primary_key=True, autoincrement=False),  # its place in that batch
    Column("at", BigInteger, nullable=False),
    Column("kind", String, nullable=False),
    Column("job", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
