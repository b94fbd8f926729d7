"""Values -> what people and scripts read: tables in Slurm's format language, Key=Value records, JSON.

`columns.py` is the format language itself and knows no value; `jobs.py`, `nodes.py` and `records.py` say which letters,
keys and JSON fields there are; `text.py` keeps users' names from breaking a line or a terminal. It may import `errors`,
`values`, `spec` and `protocol`. Nothing here prints or asks the controller: text goes out, commands write it.
"""
