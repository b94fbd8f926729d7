"""Benchmarks: each `bench_*.py` is a program that prints one table; `python -m tests.bench` runs them all.

They measure this machine as it is now, so each table has its floor or its peer measured in the same run, and a range.
Start at `report.py`.
"""
