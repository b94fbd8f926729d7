"""Requests of users: from frames on a connection to `Call` events, and the answers back.

`dispatch.py` knows who asks, what may be asked and what became of it, whatever road a request took (the unix socket, or
an agent that passes it on); `server.py` is the unix socket. May import gsched, `fleet` and what is below, `structlog`.
"""
