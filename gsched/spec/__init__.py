"""Text of users to values and back: directives, durations, sizes, node lists, gres, constraints, file-name patterns.

Pure functions, no I/O. A mistake is a `BadRequest` whose text says what was found and which forms exist. May import
`values` and `errors`. Patterns are compiled where they are used, because one command reads few of them. Start at
`durations.py`; `scripts.py` reads `#GSUB` and `#SBATCH` lines.
"""
