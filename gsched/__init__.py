"""What all parts share, and the user's side: values, protocol, client, commands.

Light by rule: no numba, numpy, SQLAlchemy, uvloop or daemon code is imported here, so that commands feel instant.
Start at `values/`, then `protocol/messages.py`.
"""

__version__ = "0.1.0"
