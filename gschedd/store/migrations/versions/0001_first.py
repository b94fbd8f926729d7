"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ROWID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _key(name: str, kind: sa.types.TypeEngine[int] | type[sa.types.TypeEngine[int]] = sa.BigInteger) -> sa.Column[int]:
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def _body() -> sa.Column[bytes]:
    return sa.Column("body", sa.LargeBinary, nullable=False)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String, nullable=False)


def upgrade() -> None:
    op.create_table("meta", _key("id", sa.SmallInteger), _whole("batch"), _whole("next_job_id"))
    op.create_table(
        "leader", _key("id", sa.SmallInteger), _whole("term"), _text("holder"), _whole("taken"), _whole("expires")
    )
    op.create_table(
        "jobs",
        _key("id", _ROWID),
        _whole("uid"),
        _text("username"),
        _text("state"),
        _whole("submitted"),
        sa.Column("finished", sa.BigInteger),
        _body(),
    )
    op.create_index("jobs_by_finished", "jobs", ["finished"])
    op.create_table("job_scripts", _key("job", _ROWID), _body())
    op.create_table(
        "runs",
        _key("job"),
        _key("no"),
        sa.Column("closed", sa.SmallInteger, nullable=False),
        _whole("created"),
        _body(),
    )
    live = sa.text("closed = 0")
    op.create_index("runs_live", "runs", ["closed"], sqlite_where=live, postgresql_where=live)
    op.create_table("steps", _key("job"), _key("run"), _key("id"), _body())
    op.create_table("nodes", sa.Column("name", sa.String, primary_key=True), _body())
    op.create_table(
        "answers",
        _key("uid"),
        sa.Column("request_id", sa.String, primary_key=True),
        _whole("at"),
        _body(),
        sqlite_with_rowid=False,
    )
    op.create_index("answers_by_time", "answers", ["at"])
    op.create_table(
        "events",
        _key("batch"),
        _key("line"),
        _whole("at"),
        _text("kind"),
        _whole("job"),
        _body(),
        sqlite_with_rowid=False,
    )
    op.bulk_insert(
        sa.table("meta", sa.column("id"), sa.column("batch"), sa.column("next_job_id")),
        [{"id": 1, "batch": 0, "next_job_id": 1}],
    )
    op.bulk_insert(
        sa.table("leader", *(sa.column(name) for name in ("id", "term", "holder", "taken", "expires"))),
        [{"id": 1, "term": 0, "holder": "", "taken": 0, "expires": 0}],
    )


def downgrade() -> None:
    raise NotImplementedError("an older gschedd reads a backup made before the upgrade, never a newer schema")
