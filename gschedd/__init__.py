"""The controller daemon: keeps the queue, decides, tells agents what is wanted.

`core/` and `lifecycle/` are pure; `machine.py` is the one synchronous front door; the rest is a thin shell around it.
May import `gsched`, never `agent`. Start at `machine.py`.
"""
