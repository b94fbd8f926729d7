"""A cluster of one's own on one machine, in one directory: `gsched up`, `down`, `status` and `env`.

gschedd and one agent a node run as processes of this user, started from here as programs and found again by their pid
files; nothing of either is imported. It may import all of gsched but `render` and `cli`. Start at `cluster.py`, which
brings a cluster up; `place.py` is the directory, `settings_file.py` what is remembered in it, `processes.py` how a
daemon is started, found and stopped, `ending.py` the tidy end.
"""
