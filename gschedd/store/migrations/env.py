"""Run by Alembic: carries out the steps on the connection that was handed over, inside its transaction."""

from __future__ import annotations

from alembic import context

from gschedd.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite can't alter a column in place
)
context.run_migrations()
