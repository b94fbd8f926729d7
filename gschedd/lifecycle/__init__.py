"""PURE. The table of transitions, and what each event makes of jobs, runs and nodes.

May import `gsched.values`, `gsched.errors`. Start at `table.py`; `changes.py` is what the journal is told.
"""
