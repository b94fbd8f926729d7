"""The supervisor: one small process a run and node, which lives as long as its run and needs nothing of the agent.

It starts the user's processes, ends them, and keeps the run's facts on disk, so that agents come and go. Standard
library only; started as `python -I -S <this directory> RUN_DIRECTORY`, or forked from a template process that has
imported everything (`template.py`). Its modules import each other by bare name, because they run outside the package.
Start at `run.py`; `records.py` (what is on disk) is read by the agent as well.
"""
