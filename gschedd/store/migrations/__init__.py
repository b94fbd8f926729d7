"""Alembic's steps from an older schema to today's, run when the store is opened.

`env.py` is run by Alembic with the connection that `gschedd.store.migrate` hands it; `versions/` has one file a step.
Imported by nothing.
"""
