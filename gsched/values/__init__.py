"""Frozen values that every part speaks in: ids, states, jobs, runs, nodes, reasons.

They may import nothing of gsched but `errors`. Instants are integer milliseconds of wall time since the epoch;
memory is MiB; durations are seconds and say so in their names.
"""
