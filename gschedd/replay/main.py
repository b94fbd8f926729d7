"""gsim: judge the scheduler on traces. The module of a subcommand is loaded when that one is asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from gsched.cli._common import group, run
from gschedd.kernel_cache import use_kernel_cache

# Name -> (module that has the click command `command`, one line of help).
_COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "compare": ("gschedd.replay.compare", "Compare results of replays."),
    "replay": ("gschedd.replay.replay_command", "Replay a timed trace under several policies."),
    "topology": ("gschedd.replay.topology", "Show, check and convert a cluster's topology."),
    "replay-pass": ("gschedd.replay.replay_pass", "Work a recorded pass out again and compare the plans."),
    "pack": ("gschedd.replay.pack", "Fill a cluster with pods and compare how policies pack."),
}


@group("gsim")
def gsim() -> None:
    """Judge the scheduler on traces: the production core on a virtual clock."""


def add(name: str, module: str, help_text: str) -> None:
    """Enter a subcommand that costs nothing until it is used."""

    @gsim.command(
        name,
        short_help=help_text,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    @click.pass_context
    def load(ctx: click.Context) -> int | None:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gsched"
        use_kernel_cache(base)  # before numba is imported
        command: click.Command = import_module(module).command
        with command.make_context(ctx.command_path, list(ctx.args), parent=ctx.parent) as inner:
            answer = command.invoke(inner)
        return answer if isinstance(answer, int) else None


for _name, (_module, _help) in _COMMANDS.items():
    add(_name, _module, _help)


def main(argv: Sequence[str] | None = None) -> int:
    return run(gsim, "gsim", argv)


if __name__ == "__main__":
    sys.exit(main())
