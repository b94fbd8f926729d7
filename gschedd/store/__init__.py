"""The store: the only place with SQL. Batches go in whole, frozen values come out.

`journal.py` says what a store promises (start there), `sql.py` keeps it in a database, `memory.py` in memory for the
simulation; `writer.py` is the daemon's thread in front of either. `schema.py` has the tables, `rows.py` turns values
into rows and back, `migrations/` holds every step from an older schema. May import gsched, `gschedd.lifecycle` and
SQLAlchemy; nothing of the daemon's loop.
"""
