"""Holding a run to what it was given: control groups of version 2, version 1, and both at once.

The agent makes a run's groups before its supervisor starts, the supervisor enters them (`agent/supervisor/group.py`),
and the agent removes them when the run is forgotten. May import the inventory and `gsched`. Start at `cgroups.py`.
"""
