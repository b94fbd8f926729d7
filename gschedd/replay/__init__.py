"""gsim: the production core on a virtual clock, judged on traces.

May import everything of `gschedd` below `build`; nothing imports it. Start at `main.py`: a module a subcommand, loaded
when it is asked for.
"""
