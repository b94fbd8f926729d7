"""What is said on every socket: messages, frames, versions. Sans-I/O: bytes in, messages out.

`messages.py` holds the requests of users and their replies, `link.py` what agent and controller say to each other,
`stream.py` what grun and an agent say, `hello.py` what is said first; `frames.py` turns them into length-prefixed
msgpack and back.
It may import `errors`, `values`, `spec`.
"""
