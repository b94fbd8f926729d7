"""Brings a database to today's schema, or refuses one that a newer gschedd made."""

from __future__ import annotations

from alembic.command import upgrade
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from gschedd.store.journal import StoreRefused


def migrate(connection: Connection) -> None:
    """Carry out the steps that are missing, inside the connection's transaction. Raises StoreRefused."""
    config = Config()
    config.set_main_option("script_location", "gschedd.store:migrations")
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    found = MigrationContext.configure(connection).get_current_revision()
    if found == script.get_current_head():
        return
    known = {step.revision for step in script.walk_revisions()}
    if found is not None and found not in known:
        raise StoreRefused(
            f"the database has schema {found}, made by a newer gschedd; this one knows up to "
            f"{script.get_current_head()}: start the newer version, or restore a backup made before the upgrade"
        )
    config.attributes["connection"] = connection
    upgrade(config, "head")
