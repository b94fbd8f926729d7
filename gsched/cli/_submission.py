"""From words, variables and a script to the request that gsub sends. Pure: what it reads is handed over.

What is said on the command line counts before the environment (GSUB_*, SBATCH_*), that before the script's directives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple, TypeVar

import click

from gsched.cli._common import one_line, usage_text
from gsched.cli._submit_options import (
    Given,
    Said,
    SubmitCommand,
    click_parameters,
    given_by_click,
    given_by_directives,
    given_by_environment,
    merge,
)
from gsched.errors import BadRequest, TooLarge
from gsched.protocol.messages import SubmitJob
from gsched.spec.constraints import parse_constraint
from gsched.spec.counts import parse_count, parse_node_count
from gsched.spec.durations import parse_duration
from gsched.spec.exports import export
from gsched.spec.filenames import check_pattern
from gsched.spec.gres import GpuAsk, parse_gpus, parse_gres
from gsched.spec.memory import parse_memory
from gsched.spec.nodelists import expand
from gsched.spec.scripts import check_script, read_directives
from gsched.values.ids import NodeName
from gsched.values.job import DEFAULT_ACCOUNT, JobPayload, JobSpec

STDIN: Final = "-"  # the path that read_file is asked for when the script comes from standard input
NAME_MAX_BYTES: Final = 1024
COMMENT_MAX_BYTES: Final = 4096
NICE_MAX: Final = 2_147_483_645  # Slurm's

ReadFile = Callable[[str], bytes]
_T = TypeVar("_T")


class Here(NamedTuple):
    """What a job takes over from the process that submits it."""

    cwd: str
    umask: int = 0o022
    host: str = ""


class Trial(NamedTuple):
    """How --test-only was meant."""

    alternatives: bool
    as_json: bool


class Submission(NamedTuple):
    """What to send, and how to speak of it."""

    request: SubmitJob
    warnings: tuple[str, ...] = ()
    parsable: bool = False
    quiet: bool = False
    trial: Trial | None = None  # only ask when it would start


class _Script(NamedTuple):
    content: bytes
    name: str  # of the job, if none is given
    source: str  # for errors
    args: tuple[str, ...] = ()


def read_submission(
    argv: Sequence[str], environment: Mapping[str, str], read_file: ReadFile, here: Here, request_id: str = ""
) -> Submission:
    """Read a whole command line. Raises BadRequest or TooLarge; whatever `read_file` raises goes through."""
    parser = SubmitCommand("gsub", params=[*click_parameters()], context_settings={"allow_interspersed_args": False})
    try:
        values = parser.make_context("gsub", list(argv)).params
    except click.ClickException as error:
        raise BadRequest(usage_text(error, "gsub")) from None
    return submission(values, environment, read_file, here, request_id)


def submission(
    values: Mapping[str, object], environment: Mapping[str, str], read_file: ReadFile, here: Here, request_id: str
) -> Submission:
    """The same from click's values by name."""
    words = values["words"]
    assert isinstance(words, tuple)
    typed = given_by_click(values)
    script = _script(typed.get("--wrap"), words, read_file)
    check_script(script.content, script.source)
    directives = read_directives(script.content, script.source)
    written = given_by_directives(directives.lines, script.source)
    given = merge(merge(written, given_by_environment(environment)), typed)
    _check_text(given)
    exported = _read(given, "--export", lambda text: export(text, environment)) or export("ALL", environment)
    return Submission(
        SubmitJob(
            spec=job_spec(given, script.name, here),
            payload=JobPayload(script.content, script.args, exported.environment),
            request_id=request_id,
        ),
        (*directives.warnings, *exported.warnings),
        parsable="--parsable" in given,
        quiet="--quiet" in given,
        trial=_trial(given),
    )


def _trial(given: Given) -> Trial | None:
    if "--test-only" in given:
        return Trial("--alternatives" in given, "--json" in given)
    for option in ("--alternatives", "--json"):
        if option in given:
            raise BadRequest(f"{option} goes with --test-only")
    return None


def job_spec(given: Given, script_name: str, here: Here) -> JobSpec:
    """The options as values. Raises BadRequest, which names the option and where it was said."""
    nodes = _read(given, "--nodes", parse_node_count)
    total, per_node = _read(given, "--gpus", parse_gpus), _gpus_per_node(given)
    switches = _read(given, "--switches", _switches) or (0, 0)
    spec = JobSpec(
        name=_read(given, "--job-name", _job_name) or script_name,
        partition=_read(given, "--partition", _partition) or "",
        nodes_min=nodes[0] if nodes else None,
        nodes_max=nodes[1] if nodes else None,
        ntasks=_read(given, "--ntasks", lambda text: parse_count(text, "tasks")),
        ntasks_per_node=_read(given, "--ntasks-per-node", lambda text: parse_count(text, "tasks on a node")),
        cpus_per_task=_read(given, "--cpus-per-task", lambda text: parse_count(text, "cores for a task")),
        mem_mib=_read(given, "--mem", parse_memory),
        time_limit_s=_read(given, "--time", parse_duration),
        gpus=total.count if total else None,
        gpus_per_node=per_node.count if per_node else None,
        gpu_model=_gpu_model(given, total, per_node),
        nodelist=_read(given, "--nodelist", _node_names) or (),
        exclude=_read(given, "--exclude", _node_names) or (),
        constraint=_read(given, "--constraint", _constraint) or "",
        level=_read(given, "--level", _level) or "",
        prefer_level=_read(given, "--prefer-level", _level) or "",
        any_topology=_read(given, "--topology", _any_topology) or False,
        switches=switches[0],
        switches_wait_s=switches[1],
        segment=_read(given, "--segment", lambda text: parse_count(text, "nodes in a segment")) or 0,
        reservation=_read(given, "--reservation", lambda text: _bounded(text, "reservation", NAME_MAX_BYTES)) or "",
        nice=_read(given, "--nice", _nice) or 0,
        hold="--hold" in given,
        requeue="--no-requeue" not in given,
        chdir=str(PurePosixPath(here.cwd) / (_read(given, "--chdir", _directory) or "")),
        output=_read(given, "--output", _file_name) or "",
        error=_read(given, "--error", _file_name) or "",
        open_append=_read(given, "--open-mode", _appends) or False,
        comment=_read(given, "--comment", lambda text: _bounded(text, "comment", COMMENT_MAX_BYTES)) or "",
        umask=here.umask,
        submit_host=here.host,
    )
    _read(given, "--account", _account)
    _require_utf8(spec.chdir, "the working directory")
    _check_nodes(spec, given)
    return spec


def _script(wrap: Said | None, words: tuple[str, ...], read_file: ReadFile) -> _Script:
    if wrap is not None:
        if words:
            raise BadRequest(f"--wrap takes the whole command as one text; {words[0]!r} is left over (quotes missing?)")
        if not wrap.text.strip():
            raise BadRequest("--wrap: the command is empty")
        text = f"#!/bin/sh\n# Made by gsub --wrap.\n\n{wrap.text}\n"
        return _Script(text.encode("utf-8", "surrogateescape"), "wrap", "--wrap")
    if words and not PurePosixPath(words[0]).name:
        raise BadRequest(
            f"{words[0]!r} is not a script's name; give a file, --wrap=COMMAND, or a script on standard input"
        )
    if words and words[0] != STDIN:
        return _Script(read_file(words[0]), _name_of(words[0]), words[0], words[1:])
    return _Script(read_file(STDIN), "sbatch", "standard input", words[1:])


def _name_of(path: str) -> str:
    """A job's name from its script's: what could not be shown is escaped."""
    return one_line(PurePosixPath(path).name)[: NAME_MAX_BYTES // 4]


def _read(given: Given, key: str, parse: Callable[[str], _T]) -> _T | None:
    """The value of an option, None if it was not said; an error says where it was."""
    said = given.get(key)
    if said is None:
        return None
    try:
        return parse(said.text)
    except (BadRequest, TooLarge) as error:
        prefix = "" if error.text.startswith(f"{said.where}:") else f"{said.where}: "
        raise type(error)(prefix + error.text) from None


def _gpus_per_node(given: Given) -> GpuAsk | None:
    return _read(given, "--gpus-per-node", parse_gpus) or _read(given, "--gres", parse_gres)


def _gpu_model(given: Given, total: GpuAsk | None, per_node: GpuAsk | None) -> str:
    models = {ask.model.lower(): ask.model for ask in (total, per_node) if ask and ask.model}
    if len(models) > 1:
        raise BadRequest(
            f"{given['--gpus'].where}: {' and '.join(models.values())} GPUs in one job are not supported yet"
        )
    return next(iter(models.values()), "")


def _check_nodes(spec: JobSpec, given: Given) -> None:
    both = set(spec.nodelist) & set(spec.exclude)
    if both:
        name = next(name for name in spec.nodelist if name in both)
        raise BadRequest(f"{given['--exclude'].where}: {name} is asked for by {given['--nodelist'].where} too")
    if spec.nodes_max is not None and len(spec.nodelist) > spec.nodes_max:
        raise BadRequest(
            f"{given['--nodelist'].where}: {len(spec.nodelist)} nodes are named, "
            f"but {given['--nodes'].where} allows {spec.nodes_max}"
        )


def _check_text(given: Given) -> None:
    """What listings show must be UTF-8; what only the job sees (arguments, variables, its script) need not."""
    for key, (text, where) in given.items():
        if key not in {"--wrap", "--export"}:
            _require_utf8(text, where)


def _require_utf8(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{what}: {text!r} is not UTF-8") from None


def _job_name(text: str) -> str:
    if not text or not all(char.isprintable() for char in text):
        raise BadRequest(f"not a job's name: {text!r} (one character at least, none of them a control character)")
    return _bounded(text, "name", NAME_MAX_BYTES)


def _bounded(text: str, what: str, most: int) -> str:
    size = len(text.encode())
    if size > most:
        raise TooLarge(f"the {what} has {size} bytes, the most is {most}")
    return text


def _partition(text: str) -> str:
    if "," in text:
        raise BadRequest(f"several partitions are not supported yet: {text!r}; name one")
    return _bounded(text, "partition's name", NAME_MAX_BYTES)


def _account(text: str) -> str:
    if text != DEFAULT_ACCOUNT:
        raise BadRequest(f"accounts are not supported yet: {text!r}; leave the option out or say default")
    return text


def _node_names(text: str) -> tuple[NodeName, ...]:
    return tuple(dict.fromkeys(expand(text)))


def _constraint(text: str) -> str:
    parse_constraint(text)
    return text


def _switches(text: str) -> tuple[int, int]:
    """`COUNT[@TIME]`: how many, and for how many seconds they are waited for; 0 = for ever."""
    count, at, wait = text.partition("@")
    return parse_count(count, "switches"), parse_duration(wait) if at else 0


def _level(text: str) -> str:
    if not text.strip():
        raise BadRequest("the topology level's name is empty")
    return _bounded(text, "topology level", NAME_MAX_BYTES)


def _any_topology(text: str) -> bool:
    if text != "any":
        raise BadRequest(f"not a topology: {text!r} (any; or name a level with --level, --prefer-level)")
    return True


def _nice(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise BadRequest(f"not a number: {text!r} (a whole number, as 100)") from None
    if abs(value) > NICE_MAX:
        raise BadRequest(f"{value}: from -{NICE_MAX} to {NICE_MAX} are possible")
    return value


def _directory(text: str) -> str:
    if not text:
        raise BadRequest("the directory's name is empty")
    return text


def _file_name(text: str) -> str:
    check_pattern(text)
    return text


def _appends(text: str) -> bool:
    modes = {"append": True, "a": True, "truncate": False, "t": False}
    if text not in modes:
        raise BadRequest(f"not a mode: {text!r} (append or truncate)")
    return modes[text]
