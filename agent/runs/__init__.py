"""Runs on this node: wanted against actual (pure, `node_machine.py`), and carrying the effects out (`executor.py`).

Start at `effects.py`: what goes into the pure half and what comes out.
"""
