"""Connections that carry frames: unix sockets and TLS, for the daemons' event loops.

`channel.py` is one connection as a protocol with callbacks, bounded both ways; `conversation.py` puts
`await receive()` on top; `tls.py` makes contexts and tells whose certificate the other side showed; `unix.py` opens
listening sockets; `keepalive.py` notices that a machine is gone.
May import `errors`, `protocol`, `auth`. All but `keepalive.py` import asyncio or ssl: commands must not import them at
load.
"""
