"""The options of a submission: one line each, read in the same way from a command line, the environment and a script.

Options of sbatch that are not there yet are known by name, so that the answer is "not supported yet" and not "unknown".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

import click

from gsched.cli._common import usage_text
from gsched.errors import BadRequest
from gsched.spec.scripts import Directive


class Option(NamedTuple):
    """One option. `takes` "" = a flag; `variable` is read as GSUB_VARIABLE and SBATCH_VARIABLE."""

    names: tuple[str, ...]
    takes: str
    help: str
    variable: str = ""
    in_scripts: bool = True

    @property
    def key(self) -> str:
        """What the value is called in Given: the first long name."""
        return next(name for name in self.names if name.startswith("--"))


OPTIONS: Final = (
    Option(("-J", "--job-name"), "NAME", "Name of the job.", "JOB_NAME"),
    Option(("-p", "--partition"), "NAME", "Partition; the cluster's default if not said.", "PARTITION"),
    Option(("-N", "--nodes"), "COUNT[-MOST]", "Number of nodes."),
    Option(("-n", "--ntasks"), "COUNT", "Number of tasks over the whole job."),
    Option(("--ntasks-per-node", "--tasks-per-node"), "COUNT", "Most tasks on a node."),
    Option(("-c", "--cpus-per-task"), "COUNT", "Cores for each task."),
    Option(("--mem",), "SIZE", "Memory on each node: MiB, or with K, M, G, T; 0 = all of it.", "MEM_PER_NODE"),
    Option(("-t", "--time"), "TIME", "Time limit: minutes, H:M:S, D-H:M:S, UNLIMITED.", "TIMELIMIT"),
    Option(("-G", "--gpus"), "[MODEL:]COUNT", "GPUs over the whole job.", "GPUS"),
    Option(("--gpus-per-node",), "[MODEL:]COUNT", "GPUs on each node.", "GPUS_PER_NODE"),
    Option(("--gres",), "gpu[:MODEL][:COUNT]", "The same, in an older form.", "GRES"),
    Option(("-w", "--nodelist"), "NODES", "Nodes that must be in the allocation, as n[1-4]."),
    Option(("-x", "--exclude"), "NODES", "Nodes that must not be in it."),
    Option(("-C", "--constraint"), "FEATURES", "Features its nodes must have: A&B all, A|B one of them.", "CONSTRAINT"),
    Option(("-o", "--output"), "FILE", "File for the output; %j is the job's id.", "OUTPUT"),
    Option(("-e", "--error"), "FILE", "File for stderr; joins the output if not said.", "ERROR"),
    Option(("--open-mode",), "append|truncate", "What to do with an output file that exists.", "OPEN_MODE"),
    Option(("-D", "--chdir"), "DIR", "Where the job runs; the current directory if not said."),
    Option(("--export",), "ALL|NONE|LIST", "Variables to pass on, as ALL,NAME,NAME=VALUE.", "EXPORT"),
    Option(("-A", "--account"), "NAME", "Account; only `default` exists yet.", "ACCOUNT"),
    Option(("--comment",), "TEXT", "Any text, kept with the job."),
    Option(("--switches",), "COUNT[@TIME]", "At most so many leaf switches; after TIME any number.", "REQ_SWITCH"),
    Option(("--segment",), "COUNT", "Nodes in groups of so many, each under one leaf switch.", "SEGMENT_SIZE"),
    Option(("--level",), "LEVEL", "All nodes in one domain of this topology level, or it waits.", "LEVEL"),
    Option(("--prefer-level",), "LEVEL", "Near enough: nodes within one domain of this level.", "PREFER_LEVEL"),
    Option(("--topology",), "any", "Where the nodes are does not matter.", "TOPOLOGY"),
    Option(("--reservation",), "NAME", "Run inside this reservation.", "RESERVATION"),
    Option(("--nice",), "COUNT", "Taken off the job's priority; below 0 for administrators.", "NICE"),
    Option(("-H", "--hold"), "", "Do not start before `gctl release`."),
    Option(("--requeue",), "", "May be started again after a node was lost (default).", "REQUEUE"),
    Option(("--no-requeue",), "", "May not.", "NO_REQUEUE"),
    Option(("--parsable",), "", "Print the job's id only."),
    Option(("-Q", "--quiet"), "", "Print nothing but errors."),
    Option(("--test-only",), "", "Say when and where it would start; nothing is submitted.", in_scripts=False),
    Option(("--alternatives",), "", "With --test-only: also other sizes, GPU models, times.", in_scripts=False),
    Option(("--json",), "", "With --test-only: for programs.", in_scripts=False),
    Option(("--wrap",), "COMMAND", "Run this command line instead of a script.", in_scripts=False),
)

# Of two in a pair the one that is said in the nearer place counts; both in one place are an error.
RIVALS: Final = {
    "--gres": "--gpus-per-node",
    "--gpus-per-node": "--gres",
    "--requeue": "--no-requeue",
    "--no-requeue": "--requeue",
    "--topology": "--level",
    "--level": "--topology",
}

# sbatch's, by their names in its manual; the variable where it has one.
LATER: Final = (
    (("-a", "--array"), "ARRAY_INX"),
    (("-d", "--dependency"), ""),
    (("-b", "--begin"), ""),
    (("-q", "--qos"), "QOS"),
    (("-i", "--input"), "INPUT"),
    (("-W", "--wait"), "WAIT"),
    (("-k", "--no-kill"), "NO_KILL"),
    (("-L", "--licenses"), ""),
    (("-M", "--clusters"), "CLUSTERS"),
    (("-F", "--nodefile"), ""),
    (("-O", "--overcommit"), "OVERCOMMIT"),
    (("-s", "--oversubscribe"), ""),
    (("-S", "--core-spec"), "CORE_SPEC"),
    (("-B", "--extra-node-info"), ""),
    (("-m", "--distribution"), "DISTRIBUTION"),
    (("-I", "--immediate"), "IMMEDIATE"),
    (("-v", "--verbose"), "DEBUG"),
    (("--exclusive",), "EXCLUSIVE"),
    (("--gpus-per-task",), "GPUS_PER_TASK"),
    (("--gpus-per-socket",), ""),
    (("--cpus-per-gpu",), "CPUS_PER_GPU"),
    (("--mem-per-cpu",), "MEM_PER_CPU"),
    (("--mem-per-gpu",), "MEM_PER_GPU"),
    (("--ntasks-per-gpu",), ""),
    (("--ntasks-per-core",), ""),
    (("--ntasks-per-socket",), ""),
    (("--sockets-per-node",), ""),
    (("--cores-per-socket",), ""),
    (("--threads-per-core",), "THREADS_PER_CORE"),
    (("--thread-spec",), "THREAD_SPEC"),
    (("--gpu-bind",), "GPU_BIND"),
    (("--gpu-freq",), "GPU_FREQ"),
    (("--gres-flags",), "GRES_FLAGS"),
    (("--tres-per-task",), "TRES_PER_TASK"),
    (("--tres-bind",), "TRES_BIND"),
    (("--hint",), "HINT"),
    (("--mem-bind",), "MEM_BIND"),
    (("--mincpus",), ""),
    (("--tmp",), ""),
    (("--time-min",), ""),
    (("--deadline",), ""),
    (("--priority",), ""),
    (("--signal",), "SIGNAL"),
    (("--contiguous",), ""),
    (("--spread-job",), "SPREAD_JOB"),
    (("--use-min-nodes",), "USE_MIN_NODES"),
    (("--prefer",), ""),
    (("--kill-on-invalid-dep",), "KILL_INVALID_DEPEND"),
    (("--mail-type",), ""),
    (("--mail-user",), ""),
    (("--wckey",), "WCKEY"),
    (("--uid",), ""),
    (("--gid",), ""),
    (("--export-file",), ""),
    (("--get-user-env",), "GET_USER_ENV"),
    (("--propagate",), ""),
    (("--profile",), "PROFILE"),
    (("--acctg-freq",), "ACCTG_FREQ"),
    (("--power",), "POWER"),
    (("--network",), "NETWORK"),
    (("--bb",), ""),
    (("--bbf",), ""),
    (("--cluster-constraint",), ""),
    (("--delay-boot",), "DELAY_BOOT"),
    (("--reboot",), ""),
    (("--wait-all-nodes",), "WAIT_ALL_NODES"),
    (("--ignore-pbs",), "IGNORE_PBS"),
    (("--stepmgr",), ""),
    (("--container",), "CONTAINER"),
    (("--container-id",), "CONTAINER_ID"),
    (("--container-image",), ""),
    (("--container-mounts",), ""),
    (("--container-workdir",), ""),
    (("--container-name",), ""),
    (("--container-save",), ""),
    (("--container-writable",), ""),
    (("--container-readonly",), ""),
    (("--container-mount-home",), ""),
    (("--no-container-mount-home",), ""),
    (("--container-entrypoint",), ""),
    (("--no-container-entrypoint",), ""),
    (("--container-env",), ""),
    (("--container-remap-root",), ""),
    (("--checkpoint-interval",), ""),
    (("--checkpoint-grace",), ""),
)


class Said(NamedTuple):
    """A value as written ("" for a flag), and where: `--time`, `SBATCH_TIMELIMIT`, `train.sh:3: --time`."""

    text: str
    where: str


Given = dict[str, Said]


class SubmitCommand(click.Command):
    """A click command that knows sbatch's other options by name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            for names, _ in LATER:
                if error.option_name in names:
                    raise BadRequest(f"{names[-1]} is not supported yet") from None
            raise


@cache
def click_parameters(in_scripts: bool = False) -> tuple[click.Parameter, ...]:
    """The options as click's; in scripts without those that make no sense there."""
    made = (
        click.Option(
            [*option.names, _name(option.key)], is_flag=not option.takes or None, help=option.help, metavar=option.takes
        )
        for option in OPTIONS
        if option.in_scripts or not in_scripts
    )
    rest = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED, metavar="[SCRIPT [ARGUMENT]...]")
    return (*made, rest)


def given_by_click(values: Mapping[str, object], at: str = "") -> Given:
    """What was said on a command line, from click's parameters by name; `at` is put before the option's name."""
    said = {}
    for option in OPTIONS:
        value = values.get(_name(option.key))
        if isinstance(value, str):
            said[option.key] = Said(value, at + option.key)
        elif value is True:
            said[option.key] = Said("", at + option.key)
    return _without_rivals(said)


def given_by_environment(environment: Mapping[str, str]) -> Given:
    """What GSUB_* and SBATCH_* variables say; GSUB_* counts where both are set, empty ones do not."""
    said: Given = {}
    for option in OPTIONS:
        for variable in (f"GSUB_{option.variable}", f"SBATCH_{option.variable}") if option.variable else ():
            if environment.get(variable):
                said[option.key] = Said(environment[variable] if option.takes else "", variable)
                break
    for names, variable in LATER:
        for full in (f"GSUB_{variable}", f"SBATCH_{variable}") if variable else ():
            if environment.get(full):
                raise BadRequest(f"{full} is set, but {names[-1]} is not supported yet; unset it")
    return _without_rivals(said)


def given_by_directives(directives: Iterable[Directive], source: str) -> Given:
    """What a script's directives say; of two that say the same, the later line counts. Raises BadRequest."""
    said: Given = {}
    parser: click.Command | None = None
    for directive in directives:
        at = f"{source}:{directive.line}: "
        if not directive.words:
            continue
        if directive.words[0] == "hetjob":
            raise BadRequest(f"{at}hetjob is not supported yet; submit its components as jobs of their own")
        parser = parser or SubmitCommand("gsub", params=[*click_parameters(in_scripts=True)], add_help_option=False)
        said |= _directive(parser, directive, at)
    return _without_rivals(said)


def merge(far: Given, near: Given) -> Given:
    """Both together; where they differ, the nearer counts."""
    silenced = {RIVALS[key] for key in near if key in RIVALS}
    return {**{key: value for key, value in far.items() if key not in silenced}, **near}


def _directive(parser: click.Command, directive: Directive, at: str) -> Given:
    try:
        context = parser.make_context("gsub", list(directive.words))
    except click.ClickException as error:
        raise BadRequest(f"{at}{usage_text(error, 'gsub')}") from None
    except BadRequest as error:
        raise BadRequest(f"{at}{error.text}") from None
    stray: Sequence[str] = context.params["words"]
    if stray:
        raise BadRequest(f"{at}{stray[0]!r} on the {directive.mark} line is not an option; options begin with a dash")
    return given_by_click(context.params, at)


def _without_rivals(said: Given) -> Given:
    for one, other in RIVALS.items():
        if one in said and other in said:
            raise BadRequest(f"{said[one].where} and {said[other].where} exclude each other; give one of them")
    return said


def _name(key: str) -> str:
    """The name click keeps an option's value under."""
    return key.removeprefix("--").replace("-", "_")
