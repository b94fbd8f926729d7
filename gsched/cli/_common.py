"""What every command shares: how it is declared, how it ends, and how it speaks on stderr.

    @command("gcancel")
    @click.argument("jobs", nargs=-1)
    def gcancel(jobs: tuple[str, ...]) -> int | None:
        '''Cancel jobs.'''
        if not jobs:
            fail("say which jobs to cancel: ids, or -u USER", status=2)
        with connect() as client:  # a GschedError ends the command with its text and its exit status
            ...
        return 0  # None is 0 too

    def main(argv: Sequence[str] | None = None) -> int:
        return run(gcancel, "gcancel", argv)

Errors are one line on stderr, `gcancel: error: ...`, whatever raised them. Exit statuses: those of `gsched/errors.py`;
2 for a command line that is wrong; 130 after Ctrl-C; 141 when the reader of our output went away, as a shell shows
SIGPIPE; 1 when the output cannot be written (a full disk).
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from io import TextIOWrapper
from typing import Final, NoReturn, TextIO, TypeVar

import click

from gsched import __version__
from gsched.errors import GschedError

USAGE: Final = 2
INTERRUPTED: Final = 128 + 2  # SIGINT
READER_GONE: Final = 128 + 13  # SIGPIPE
NOT_WRITTEN: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}  # what a write of output fails with

_Declared = TypeVar("_Declared", bound=click.Command)


class CommandFailed(GschedError):
    """Ends a command with a text and any exit status; made by `fail`."""

    code = "command.failed"

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def command(
    name: str,
    *,
    interspersed: bool = True,
    short_help: bool = False,
    epilog: str | None = None,
    cls: type[click.Command] = click.Command,
) -> Callable[[Callable[..., int | None]], click.Command]:
    """Declare a function as a command: `click.command` with `--help` and `-V, --version`.

    interspersed: options may follow arguments; False for commands that take another command's words (grun, gsub).
    short_help: `-h` is help too (in squeue's family it is "no header").
    """
    settings = {
        "allow_interspersed_args": interspersed,
        "help_option_names": ["-h", "--help"] if short_help else ["--help"],
        "max_content_width": 110,
    }

    def declare(function: Callable[..., int | None]) -> click.Command:
        made = click.command(name, cls=cls, context_settings=settings, epilog=epilog)(function)
        return _with_version(made)

    return declare


def group(name: str) -> Callable[[Callable[..., None]], click.Group]:
    """Declare a command that has sub-commands (`gctl`): add them with `@NAME.command("show")`."""

    def declare(function: Callable[..., None]) -> click.Group:
        made = click.group(name, cls=_SubCommands, context_settings={"max_content_width": 110})(function)
        return _with_version(made)

    return declare


def run(declared: click.Command, prog: str, argv: Sequence[str] | None = None) -> int:
    """Run a command on `argv` (None: the process's own) and give its exit status. Raises only on our own bugs."""
    words = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no reason to stop
    _open_closed_streams()
    try:
        status = _invoke(declared, prog, words)
        sys.stdout.flush()
    except BrokenPipeError:
        _write_no_more(sys.stdout)  # gqueue | head: nobody is left to tell
        return READER_GONE
    except OSError as error:
        if error.errno not in NOT_WRITTEN:
            raise
        _write_no_more(sys.stdout)
        return _ended(prog, f"the output cannot be written: {error.strerror}", 1)
    except (KeyboardInterrupt, click.Abort):
        say(prog, "interrupted")
        return INTERRUPTED
    except CommandFailed as failed:
        return _ended(prog, failed.text, failed.status)
    except GschedError as error:
        return _ended(prog, error.text, error.exit_status)
    except click.ClickException as error:
        return _ended(prog, usage_text(error, prog), USAGE)
    return status


def fail(text: str, status: int = 1) -> NoReturn:
    """End the command: `PROG: error: TEXT` on stderr, and `status`."""
    raise CommandFailed(text, status)


def warn(text: str) -> None:
    """Say `PROG: warning: TEXT` on stderr and go on."""
    say(_prog(), f"warning: {text}")


def note(text: str) -> None:
    """Say `PROG: TEXT` on stderr and go on: what the user should know, but did not do wrong."""
    say(_prog(), text)


def say(prog: str, text: str) -> None:
    """Print one line on stderr under the command's name; what could move the cursor is shown escaped."""
    _flush_output()
    try:
        click.echo(f"{prog}: {one_line(text)}", err=True)
    except OSError:
        _write_no_more(sys.stderr)  # the exit status still tells


def one_line(text: str) -> str:
    """The text with control characters escaped and other than UTF-8 replaced: fit for one line of a terminal."""
    shown = text.replace("\n", " ").encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode("ascii") for c in shown)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean X?)` where something known is near, else nothing. For the end of an error's text."""
    from difflib import get_close_matches  # only on the way out

    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ""


def usage_text(error: click.ClickException, prog: str) -> str:
    """Click's words for a wrong command line as one line of ours."""
    if isinstance(error, click.NoSuchOption):
        near = did_you_mean(error.option_name, _options_of(error.ctx)) if error.option_name.startswith("--") else ""
        return f"unknown option {error.option_name}{near}; see {prog} --help"
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        assert error.ctx is not None
        assert isinstance(error.ctx.command, click.Group)
        known = ", ".join(error.ctx.command.list_commands(error.ctx))
        return f"say which: {known}; see {error.ctx.command_path} --help"
    text = error.format_message().strip().rstrip(".")
    text = text[:1].lower() + text[1:]
    if isinstance(error, click.UsageError) and not isinstance(error, click.BadParameter):
        return f"{text}; see {prog} --help"
    return text


class _SubCommands(click.Group):
    """A group that answers a wrong sub-command with the near one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            raise click.UsageError(f"unknown sub-command {args[0]!r}{did_you_mean(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)


def _invoke(declared: click.Command, prog: str, words: list[str]) -> int:
    try:
        with declared.make_context(prog, words) as context:
            answer = declared.invoke(context)
    except click.exceptions.Exit as left:  # --help, --version
        return left.exit_code
    return answer if isinstance(answer, int) else 0


def _open_closed_streams() -> None:
    """Make what is closed of 0, 1, 2 (`gqueue >&-`) /dev/null: else a socket would get that number, and output."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    for name, fd in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(fd, "w", closefd=False))


def _ended(prog: str, text: str, status: int) -> int:
    say(prog, f"error: {text}")
    return status


def _write_no_more(stream: TextIO) -> None:
    """What is still in the stream's buffer goes nowhere: Python must not fail on it again at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _flush_output() -> None:
    """Keep the order of stdout and stderr where both go to one terminal or file."""
    if not sys.stdout.closed:
        sys.stdout.flush()


def _prog() -> str:
    context = click.get_current_context(silent=True)
    return (context.find_root().info_name if context else None) or "gsched"


def _options_of(context: click.Context | None) -> list[str]:
    if context is None:
        return []
    named = (o for p in context.command.get_params(context) if not getattr(p, "hidden", False) for o in p.opts)
    return [option for option in named if option.startswith("--")]


def _with_version(declared: _Declared) -> _Declared:
    show = click.version_option(__version__, "-V", "--version", prog_name="gsched", message="%(prog)s %(version)s")
    return show(declared)
