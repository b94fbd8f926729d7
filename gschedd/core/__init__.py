"""PURE. The scheduling core: `plan(snapshot, policy, now) -> Plan`, the same arguments always giving the same plan.

May import `gsched.values`, `gsched.spec`, `gsched.errors`, numpy and numba; no I/O, clock, random or logging.
Start at `inputs.py` (values in and out), then `plan.py`.
"""
