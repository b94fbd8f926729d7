"""The commands, one module each: parse (click), one client call, render. Each has `main(argv=None) -> int`.

A command must feel instant: it may import `values`, `spec`, `protocol`, `client` and `render`; never asyncio,
dataclasses, logging, numpy, numba, SQLAlchemy or uvloop, and `ssl` only in the function that needs it. Start at
`_common.py`, which prints errors and turns them into exit statuses, then `gcancel.py` for the shape of a whole command.
"""
