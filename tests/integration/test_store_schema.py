"""The database's schema, its steps, and what a store refuses to open."""

from __future__ import annotations

import sqlite3
import stat
from importlib import resources
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from gsched.values.ids import JobId
from gschedd.lifecycle.changes import Loaded, PutJob
from gschedd.store import schema
from gschedd.store.journal import StoreRefused
from gschedd.store.migrate import HEAD
from gschedd.store.place import file_system_of
from gschedd.store.sql import FILE_NAME, SqlStore
from tests.store_values import NOW, batch, job


def opened(store: SqlStore) -> Loaded:
    return store.open("here", NOW, min_job_age_s=300, answers_kept_s=600)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database that was opened, written to and closed."""
    store = SqlStore("", tmp_path)
    opened(store)
    store.write(batch(1, PutJob(job(1))))
    store.close()
    return tmp_path / FILE_NAME


def test_the_steps_lead_to_the_schema_that_the_code_uses(file: Path) -> None:
    engine = create_engine(f"sqlite:///{file}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
    engine.dispose()


def test_the_last_step_is_the_one_that_a_start_looks_for() -> None:
    assert ScriptDirectory(str(resources.files("gschedd.store") / "migrations")).get_current_head() == HEAD


def test_the_steps_make_the_very_tables_that_the_code_would_make(file: Path, tmp_path: Path) -> None:
    """Alembic compares columns and indexes; this compares what SQLite was told, `WITHOUT ROWID` and all."""
    fresh = tmp_path / "fresh.db"
    engine = create_engine(f"sqlite:///{fresh}")
    schema.metadata.create_all(engine)
    engine.dispose()
    assert statements(file) == statements(fresh)


def statements(file: Path) -> dict[str, str]:
    with sqlite3.connect(file) as raw:
        found = raw.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'alembic_version'")
        made = {name: " ".join(sql.split()) for name, sql in found}
    raw.close()
    return made


def test_only_the_owner_may_read_the_database_and_its_log(tmp_path: Path) -> None:
    store = SqlStore("", tmp_path)
    opened(store)
    store.write(batch(1, PutJob(job(1))))
    files = sorted(tmp_path.glob(f"{FILE_NAME}*"))
    assert len(files) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    store.close()


def test_every_commit_waits_for_the_disk(tmp_path: Path) -> None:
    """The pragma belongs to a connection, not to the file: it is read on the store's own."""
    store = SqlStore("", tmp_path)
    opened(store)
    connection = store._connected()
    assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
    assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
    store.close()


def test_a_second_gschedd_on_the_same_directory_is_refused_by_name(tmp_path: Path) -> None:
    first, second = SqlStore("", tmp_path), SqlStore("", tmp_path)
    opened(first)
    with pytest.raises(StoreRefused, match=r"in use by another gschedd \(process \d+\): stop that one first"):
        opened(second)
    first.close()
    assert opened(second).term == 2
    second.close()


def test_a_database_of_a_newer_gschedd_is_refused(file: Path) -> None:
    with sqlite3.connect(file) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.close()
    store = SqlStore("", file.parent)
    with pytest.raises(StoreRefused, match="schema 9999, made by a newer gschedd"):
        opened(store)
    store.close()
    with sqlite3.connect(file) as raw:
        assert raw.execute("SELECT term FROM leader").fetchone() == (1,)
    raw.close()


def test_a_file_that_is_no_database_is_refused(file: Path) -> None:
    file.write_bytes(b"this was a database once\n" * 400)
    store = SqlStore("", file.parent)
    with pytest.raises(StoreRefused, match="not a sound SQLite database"):
        opened(store)
    store.close()


def test_a_damaged_row_is_named(file: Path) -> None:
    with sqlite3.connect(file) as raw:
        raw.execute("UPDATE jobs SET body = x'80'")
    raw.close()
    store = SqlStore("", file.parent)
    with pytest.raises(StoreRefused, match=r"damaged at job 1: .*backup"):
        opened(store)
    store.close()


@pytest.mark.parametrize("url", ["postgresql://host/gsched", "sqlite://", "no url"])
def test_a_database_that_is_not_a_sqlite_file_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(StoreRefused, match="sqlite:////path/to/file"):
        SqlStore(url, tmp_path)


def test_a_database_may_lie_elsewhere(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/other.db", tmp_path)
    assert opened(store).next_job_id == JobId(1)
    store.close()
    assert (tmp_path / "other.db").exists()


MOUNTS = """22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:40 / /srv rw - nfs4 server:/srv rw
31 30 8:2 / /srv/local\\040disk rw - xfs /dev/sdb rw
32 22 0:41 / /home rw - ext4 /dev/sdc rw
33 22 0:42 / /home rw - lustre mgs:/home rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/gsched", "ext4"),
        ("/srv/gsched", "nfs4"),
        ("/srvgsched", "ext4"),
        ("/srv/local disk/gsched", "xfs"),
        ("/home/gsched", "lustre"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    assert file_system_of(Path(path), MOUNTS) == kind
