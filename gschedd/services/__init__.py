"""Use cases as plain functions on the state: submit, cancel, allocate, take a report, lose a node.

Each gets a StateChange, validates first, then puts whole values. No clock, socket or await; the machine calls them.
May import core, lifecycle, state, events. Start at `runs.py`.
"""
