"""gsub: submit a batch job, as sbatch does.

The script's own checks and those of paths happen here, as the user who submits; what the cluster can hold is the
controller's to say. Nothing is sent before all of them passed.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from gsched.cli._common import command, note, run, warn
from gsched.cli._submission import STDIN, Here, Trial, submission
from gsched.cli._submit_options import SubmitCommand, click_parameters
from gsched.client.blocking import connect, new_request_id
from gsched.errors import BadRequest
from gsched.protocol.messages import TryJob
from gsched.spec.filenames import fixed_part, has_marks
from gsched.spec.scripts import SCRIPT_MAX_BYTES, too_large
from gsched.values.job import JobSpec

DEFAULT_OUTPUT: Final = "slurm-%j.out"


@command("gsub", interspersed=False, short_help=True, cls=SubmitCommand)
def gsub(**values: object) -> int:
    """Submit a batch job: a SCRIPT with its arguments, a command with --wrap, or a script on standard input.

    Lines of the script that begin with #GSUB or #SBATCH hold options too. What is said on the command line counts
    before GSUB_* and SBATCH_* variables, those before the script.
    """
    made = submission(values, os.environ, read_script, _here(), new_request_id())
    check_paths(made.request.spec)
    for text in made.warnings:
        warn(text)
    if made.trial is not None:
        return _only_tried(made.request.spec, made.trial)
    with connect() as client:
        reply = client.call(made.request)
    if reply.note:
        note(reply.note)
    if made.parsable:
        click.echo(reply.job)
    elif not made.quiet:
        click.echo(f"Submitted batch job {reply.job}")
    return 0


def _only_tried(spec: JobSpec, trial: Trial) -> int:
    """Ask when and where it would start; the sentence goes to stderr, as sbatch's."""
    from gsched.render.explanation import starts_lines, tried_line  # here, because a submission needs it not

    with connect() as client:
        tried = client.call(TryJob(spec, trial.alternatives))
    if tried.note:
        note(tried.note)
    if trial.as_json:
        from gsched.render.text import json_text

        click.echo(json_text(tried))
        return 0
    note(tried_line(tried, tried.expected[0]))
    if trial.alternatives:
        click.echo("\n".join(starts_lines(tried)))
    return 0


gsub.params[:0] = click_parameters()


def main(argv: Sequence[str] | None = None) -> int:
    """Run gsub; give its exit status."""
    return run(gsub, "gsub", argv)


def read_script(path: str) -> bytes:
    """Read a script from a file, or from standard input. Raises BadRequest, or TooLarge without reading it all."""
    if path == STDIN:
        if sys.stdin is None or sys.stdin.isatty():
            raise BadRequest("no script; give a file, --wrap=COMMAND, or a script on standard input")
        return sys.stdin.buffer.read(SCRIPT_MAX_BYTES + 1)
    try:
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > SCRIPT_MAX_BYTES:
                raise too_large(path, size)
            return file.read(SCRIPT_MAX_BYTES + 1)
    except OSError as error:
        raise BadRequest(f"the script {path} cannot be read: {error.strerror}; give a file or --wrap=COMMAND") from None
    except ValueError as error:  # a NUL in the name
        raise BadRequest(f"the script {path!r} cannot be read: {error}") from None


def check_paths(spec: JobSpec) -> None:
    """Refuse a directory or an output file that this user cannot use, seen from this machine. Raises BadRequest."""
    why = _why_no_directory(spec.chdir, os.X_OK)
    if why:
        raise BadRequest(f"the working directory {spec.chdir} {why}; give another with -D")
    for option, pattern in (("-o", spec.output or DEFAULT_OUTPUT), ("-e", spec.error)):
        if pattern:
            why = _why_no_output(pattern, spec.chdir)
            if why:
                raise BadRequest(f"the output file {pattern} cannot be written: {why}; give another with {option}")


def _why_no_output(pattern: str, chdir: str) -> str:
    """Why no file of this pattern could be made or written; "" if it can, as far as is known before there is an id."""
    start = os.path.join(chdir, fixed_part(pattern))  # noqa: PTH118  a Path would lose a slash at the end
    if not has_marks(pattern):
        try:
            mode = os.stat(start).st_mode  # noqa: PTH116  it is a text still
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return "its name is too long"
            # else it is to be made
        else:
            if stat.S_ISDIR(mode):
                return "it is a directory"
            if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or start == os.devnull):
                return "it is neither a file nor a FIFO"
            return "" if os.access(start, os.W_OK, effective_ids=True) else "you may not write it"
    folder = Path(start if start.endswith("/") else Path(start).parent)
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent  # the agent makes what is missing below
    why = _why_no_directory(str(folder), os.W_OK | os.X_OK)
    return f"{folder} {why}" if why else ""


def _why_no_directory(path: str, access: int) -> str:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  it is a text still
    except OSError as error:
        return f"cannot be used: {error.strerror}"
    if not stat.S_ISDIR(mode):
        return "is not a directory"
    if not os.access(path, access, effective_ids=True):
        return "is one you may not write in" if access & os.W_OK else "is one you may not enter"
    return ""


def _here() -> Here:
    try:
        cwd = str(Path.cwd())
    except OSError as error:
        raise BadRequest(f"the current directory cannot be used: {error.strerror}; change to another") from None
    umask = os.umask(0o077)
    os.umask(umask)
    return Here(cwd, umask, os.uname().nodename)


if __name__ == "__main__":
    sys.exit(main())
