"""`python -I -S -X utf8 DIRECTORY RUN_DIRECTORY`, or `... --template`; standard input is the agent's connection."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.supervisor import template
else:
    import template

if len(sys.argv) != 2:
    sys.exit("usage: supervisor RUN_DIRECTORY | --template")
if sys.argv[1] == "--template":
    template.serve_template()
else:
    template.be_supervisor(sys.argv[1], os.dup(0))
