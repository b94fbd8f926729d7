"""How commands and scripts reach the controller, or the agent on a node: one call a request.

`blocking.py` is all that commands need; it imports no asyncio and no ssl. May import `errors`, `values`, `protocol`.
Start at `blocking.connect`.
"""
