"""Brings a database to today's schema, or refuses one that a newer gschedd made."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, inspect, text

from gschedd.store.journal import StoreRefused

HEAD: Final = "0002"  # the last of `migrations/versions`


def migrate(connection: Connection) -> None:
    """Carry out the steps that are missing, inside the connection's transaction. Raises StoreRefused."""
    found = _found(connection)
    if found != HEAD:
        _upgrade(connection, found)


def _found(connection: Connection) -> str | None:
    """The step that the database has had last, where Alembic keeps it; None for a new database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("select version_num from alembic_version")).scalar_one_or_none()


def _upgrade(connection: Connection, found: str | None) -> None:
    from alembic.command import upgrade  # a third of a second, which most starts need not spend
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", "gschedd.store:migrations")
    config.set_main_option("path_separator", "os")
    known = {step.revision for step in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise StoreRefused(
            f"the database has schema {found}, made by a newer gschedd; this one knows up to "
            f"{HEAD}: start the newer version, or restore a backup made before the upgrade"
        )
    config.attributes["connection"] = connection
    upgrade(config, "head")
