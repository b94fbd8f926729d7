"""The agent's ties to the controller: the connection it dials, and the local socket whose requests it passes on.

`controller.py` keeps the connection; `driver.py` feeds what arrives to the pure half (`agent/runs/node_machine.py`)
and carries its effects out, in order; `ticket_key.py` keeps what stream tickets are checked with; `local.py` serves
the node's users. May import `gsched` and `agent/runs`. Start at `driver.py`.
"""
