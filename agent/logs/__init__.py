"""Output of steps, from the files of a run to grun: a TLS server whose clients show tickets.

`server.py` takes connections and checks tickets; `follow.py` sends what files grow by, from an offset on;
`attendance.py` ends a step whose client stays away. May import `gsched`; the executor is handed over as `Steps`.
Start at `server.py`.
"""
