"""The agents: one session each, over TLS, which the agent dials.

`sessions.py` turns what arrives into events and carries the machine's messages out. May import gsched, `events` and
what is below, `structlog`; never the machine: it knows nothing of jobs.
"""
