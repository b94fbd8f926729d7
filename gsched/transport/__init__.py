"""Connections that carry frames: unix sockets and TLS, for the daemons' event loops.

`channel.py` is one connection as a protocol with callbacks, bounded both ways; `conversation.py` puts
`await receive()` on top; `tls.py` makes contexts and tells whose certificate the other side showed; `unix.py` opens
listening sockets.
May import `errors`, `protocol`, `auth`. The modules here import asyncio or ssl: commands must not import them at load.
"""
