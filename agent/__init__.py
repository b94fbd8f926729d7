"""The node's daemon: reports what the node has, acts towards the wanted set, supervises runs.

May import `gsched`, never `gschedd`. The pure half is `runs/node_machine.py`; start there.
"""
