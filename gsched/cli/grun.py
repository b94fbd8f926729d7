"""grun: start a command as the tasks of a step, on all nodes of a running job; bring back output and exit status."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import click
from msgspec.structs import replace

from gsched.cli import _common
from gsched.cli._common import command, fail
from gsched.client.blocking import Client, connect, new_request_id
from gsched.client.step_relay import Relay
from gsched.client.step_streams import Door, StepStreams
from gsched.errors import BadRequest, Conflict
from gsched.protocol.messages import CreateStep, ShowJob, StepCreated
from gsched.protocol.stream import OpenStep, TaskSpec
from gsched.spec.nodelists import expand, fold
from gsched.spec.step_environment import node_variables, step_variables, task_gpus, task_variables
from gsched.spec.step_layout import NodeTasks, Room, block_layout
from gsched.values.ids import JobId
from gsched.values.job import Job

FORWARDED: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
# srun's options that scripts use and grun does not have yet: the error names them as such.
NOT_YET: Final = """
    --account --accel-bind --acctg-freq --bb --bcast --begin --chdir-rel --cluster-constraint --clusters --comment
    --compress --constraint --contiguous --core-spec --cpu-bind --cpu-freq --cpus-per-gpu --deadline --delay-boot
    --dependency --disable-status --distribution --epilog --error --exact --exclude --exclusive --external-launcher
    --extra-node-info --gpu-bind --gpu-freq --gpus --gpus-per-node --gpus-per-socket --gres --gres-flags --het-group
    --hint --hold --immediate --input --interactive --kill-on-invalid-dep --licenses --mem --mem-bind --mem-per-cpu
    --mem-per-gpu --msg-timeout --multi-prog --network --nice --no-allocate --no-kill --nodefile --nodelist
    --ntasks-per-core --ntasks-per-gpu --ntasks-per-socket --open-mode --output --overcommit --overlap --oversubscribe
    --partition --preserve-env --priority --prolog --propagate --pty --qos --quiet --quit-on-interrupt --relative
    --reservation --resv-ports --send-libs --signal --slurmd-debug --sockets-per-node --spread-job --switches
    --task-epilog --task-prolog --test-only --thread-spec --threads-per-core --threads --time --time-min --tmp
    --treewidth --tres-bind --tres-per-task --uid --gid --use-min-nodes --verbose --wait --wckey --whole --x11
    --container --container-image --container-mounts --container-name --container-workdir
    -A -B -C -E -G -H -L -M -O -P -Q -R -S -T -W -X -Z -a -b -d -e -i -k -m -o -p -q -r -s -t -v -w -x"""


class GrunOptions(click.Command):
    """Reads srun's `--kill-on-bad-exit=0` too, and says which of srun's options are not there yet."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, self._plain(ctx, args))
        except click.NoSuchOption as error:
            if error.option_name in NOT_YET.split():
                fail(f"srun's option {error.option_name} is not supported yet; see grun --help", _common.USAGE)
            raise

    def _plain(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give the arguments with `--kill-on-bad-exit=0|1` as a flag; the command's own words stay as they are."""
        takes_value = {
            name
            for option in self.get_params(ctx)
            if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }
        plain: list[str] = []
        words = iter(args)
        for word in words:
            if word in ("-", "--") or not word.startswith("-"):
                return [*plain, word, *words]
            if word in ("--kill-on-bad-exit=0", "-K0"):
                continue
            plain.append("-K" if word in ("--kill-on-bad-exit=1", "-K1") else word)
            if _value_follows(word, takes_value):
                plain.extend([w for w in (next(words, None),) if w is not None])
        return plain


def _value_follows(word: str, takes_value: set[str]) -> bool:
    """Is the next word this option's value? True for `-n` and `-ln`, not for `-n4` or `--ntasks=4`."""
    if word.startswith("--"):
        return word in takes_value
    for place, letter in enumerate(word[1:], 1):
        if f"-{letter}" in takes_value:
            return place == len(word) - 1
    return False


@command(
    "grun",
    interspersed=False,
    cls=GrunOptions,
    epilog="Tasks read /dev/null: input is not passed on yet. Exit status: the highest of the tasks', 128 + N for a "
    "task ended by signal N. Ctrl-C goes to the tasks; a second one within a second kills them.",
)
@click.option("-N", "--nodes", type=click.IntRange(1), help="Nodes of the job to use, from its first.")
@click.option("-n", "--ntasks", type=click.IntRange(1), help="Tasks in all. Default: the job's.")
@click.option("--ntasks-per-node", type=click.IntRange(1), help="Tasks on each node; with -n the most on one node.")
@click.option("-c", "--cpus-per-task", type=click.IntRange(1), help="Cores a task.")
@click.option("--gpus-per-task", type=click.IntRange(1), help="Each task sees so many GPUs of its own; else all.")
@click.option("-l", "--label", is_flag=True, help="Begin each line of output with the task's rank.")
@click.option("-K", "--kill-on-bad-exit", is_flag=True, help="End the step when a task ends with an error.")
@click.option("-D", "--chdir", help="Directory of the tasks. Default: this one.")
@click.option("--export", help="ALL, NONE, or NAME,NAME=VALUE,... of the environment. Default: ALL.")
@click.option("-J", "--job-name", help="Name of the step. Default: the command's.")
@click.option("-u", "--unbuffered", is_flag=True, help="Output is passed on as it comes anyway.")
@click.option("--mpi", type=click.Choice(["none"]), help="Only none.")
@click.option("--jobid", type=click.IntRange(1), help="The job to run in. Default: the one this is called in.")
@click.argument("words", nargs=-1, required=True, metavar="COMMAND [ARG]...", type=click.UNPROCESSED)
def grun(
    nodes: int | None,
    ntasks: int | None,
    ntasks_per_node: int | None,
    cpus_per_task: int | None,
    gpus_per_task: int | None,
    label: bool,
    kill_on_bad_exit: bool,
    chdir: str | None,
    export: str | None,
    job_name: str | None,
    unbuffered: bool,  # noqa: ARG001 - accepted: nothing is ever held back
    mpi: str | None,  # noqa: ARG001 - accepted: `none` is what there is
    jobid: int | None,
    words: tuple[str, ...],
) -> int:
    """Run COMMAND as the tasks of a step on the nodes of a running job, as srun does inside a job."""
    environment = os.environ
    wanted = Wanted(nodes, ntasks, ntasks_per_node, cpus_per_task, gpus_per_task)
    with connect() as client:
        shape = _job_shape(client, environment, jobid)
        tasks, per_node, nnodes = step_size(wanted, shape, environment)
        cpus = cpus_per_task or _number(environment, "CPUS_PER_TASK")
        rooms = shape.rooms[:nnodes]  # a step that cannot fit is not even made
        block_layout(rooms, tasks, cpus or 1, gpus_per_task or 0, per_node)
        name = job_name or os.path.basename(words[0])  # noqa: PTH119 - the import of pathlib costs more than grun
        created = client.call(CreateStep(shape.job, name, tasks, nnodes, new_request_id()))
    rooms = tuple(Room(place.node, place.cpus, len(place.share_gpus)) for place in created.nodes)
    layout = block_layout(rooms, tasks, cpus or 1, gpus_per_task or 0, per_node)
    base = OpenStep(
        ticket="",
        argv=words,
        environment=exported(environment, export),
        chdir=_directory(chdir),
        tasks=(),
        kill_on_bad_exit=kill_on_bad_exit,
    )
    doors = _doors(created, layout, base, cpus, gpus_per_task)
    return _stream(doors, created.ca_pem, Relay(tasks, label), kill_on_bad_exit)


def main(argv: Sequence[str] | None = None) -> int:
    return _common.run(grun, "grun", argv)


# --- how large the step is


class Wanted(NamedTuple):
    """What the command line says about the size; None = not said."""

    nodes: int | None = None
    ntasks: int | None = None
    per_node: int | None = None
    cpus: int | None = None
    gpus: int | None = None


class JobShape(NamedTuple):
    """What the job has."""

    job: JobId
    rooms: tuple[Room, ...]  # of its nodes, in rank order
    ntasks: int
    tasks_per_node: int  # most on one node


def step_size(wanted: Wanted, shape: JobShape, environment: Mapping[str, str]) -> tuple[int, int | None, int]:
    """Give tasks, the most on one node (None: as they fit), and nodes. Raises BadRequest."""
    has = len(shape.rooms)
    if wanted.nodes is not None and wanted.nodes > has:
        raise BadRequest(f"asked for {wanted.nodes} nodes, but job {shape.job} has {has}: use -N {has} or less")
    nodes = wanted.nodes or has
    per_node = wanted.per_node or _number(environment, "NTASKS_PER_NODE")
    if wanted.ntasks is not None:
        tasks = wanted.ntasks
    elif wanted.per_node is not None:
        tasks = wanted.per_node * nodes
    elif wanted.nodes is not None:
        tasks = min(shape.ntasks, nodes * shape.tasks_per_node)
    else:
        tasks = shape.ntasks
    if tasks < nodes and wanted.nodes is not None:
        _common.warn(f"{tasks} tasks need no more than {tasks} nodes: using {tasks} of the {nodes} asked for")
    return tasks, per_node, min(nodes, tasks)


def _job_shape(client: Client, environment: Mapping[str, str], jobid: int | None) -> JobShape:
    """The job's size: from the environment inside it, else from the controller."""
    inside = _number(environment, "JOB_ID")
    if jobid is None and inside is None:
        fail(
            "not inside a job: grun does not allocate nodes by itself yet. Call it in a script given to gsub, or name "
            "a running job of yours with --jobid",
            _common.USAGE,
        )
    job = JobId(jobid if jobid is not None else inside or 0)
    return (_shape_here(job, environment) if job == inside else None) or _shape_of(client.call(ShowJob(job)).job)


def _shape_here(job: JobId, environment: Mapping[str, str]) -> JobShape | None:
    """What the job's own environment says; None if it does not say all."""
    nodelist = environment.get("SLURM_JOB_NODELIST")
    nodes = expand(nodelist) if nodelist else ()
    cpus, ntasks = _number(environment, "CPUS_ON_NODE"), _number(environment, "NTASKS")
    counts = environment.get("SLURM_TASKS_PER_NODE", "")
    if not (nodes and cpus and ntasks and counts[:1].isdigit()):
        return None
    most = max(int(part.partition("(")[0]) for part in counts.split(","))
    gpus = _number(environment, "GPUS_ON_NODE", least=0) or 0
    return JobShape(job, tuple(Room(node, cpus, gpus) for node in nodes), ntasks, most)


def _shape_of(job: Job) -> JobShape:
    need = job.request.need
    rooms = tuple(Room(node, need.cpus, need.gpus) for node in job.nodes)
    if not rooms:
        raise Conflict(f"job {job.id} is {job.state.value}: steps start in a RUNNING job only")
    return JobShape(job.id, rooms, job.request.ntasks, job.request.tasks_per_node)


def _number(environment: Mapping[str, str], name: str, least: int = 1) -> int | None:
    """A number that the job's environment holds under our name or Slurm's. Raises BadRequest if it is not one."""
    for full in (f"GSCHED_{name}", f"SLURM_{name}"):
        text = environment.get(full)
        if text:
            if not (text.isascii() and text.isdigit() and int(text) >= least):
                raise BadRequest(f"{full} is {text!r}: expected a number, at least {least}")
            return int(text)
    return None


# --- what each node is asked to do


def _doors(
    created: StepCreated, layout: Sequence[NodeTasks], base: OpenStep, cpus: int | None, gpus: int | None
) -> list[Door]:
    places = {node.node: node for node in created.nodes}
    shared = step_variables(created.step, layout, fold([part.node for part in layout]), cpus)
    doors = []
    for index, part in enumerate(layout):
        place = places[part.node]
        tasks = tuple(
            TaskSpec(rank, local, task_variables(rank, local, task_gpus(place.share_gpus, local, gpus)))
            for local, rank in enumerate(part.ranks)
        )
        environment = {**base.environment, **shared, **node_variables(index, part)}
        request = replace(base, ticket=place.ticket, environment=environment, tasks=tasks)
        doors.append(Door(place.node, place.address, request, part.ranks))
    return doors


def exported(environment: Mapping[str, str], export: str | None) -> dict[str, str]:
    """The variables that --export lets through; the job's own (GSCHED_*, SLURM_*) always go along."""
    words = [word for word in (export or environment.get("SLURM_EXPORT_ENV") or "ALL").split(",") if word]
    if "ALL" in words or words == ["NIL"]:
        kept = dict(environment)
    else:
        kept = {k: v for k, v in environment.items() if k.startswith(("GSCHED_", "SLURM_", "MASTER_"))}
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            kept[name] = value
        elif name in environment and name not in ("ALL", "NONE", "NIL"):
            kept[name] = environment[name]
    return kept


def _directory(chdir: str | None) -> str:
    try:
        here = os.getcwd()  # noqa: PTH109 pathlib is slow to import
    except FileNotFoundError:
        here = "/"
    return os.path.join(here, chdir) if chdir else here  # noqa: PTH118 pathlib is slow to import


# --- while it runs


def _stream(doors: Sequence[Door], ca_pem: bytes, relay: Relay, kill_on_bad_exit: bool) -> int:
    from gsched.transport.tls import ticket_context  # imports ssl, which no other command needs

    context = ticket_context(ca_pem)
    with _signals_as_bytes() as wake:
        output = _Output(wake)
        streams = StepStreams(doors, context, relay, output.write, _say, wake, kill_on_bad_exit=kill_on_bad_exit)
        return streams.run()


def _say(text: str) -> None:
    _common.say("grun", text)


@contextmanager
def _signals_as_bytes() -> Iterator[socket.socket]:
    """While it lasts the signals that grun passes on arrive as bytes on the socket, and end nothing here."""
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    # What the caller had ignored stays so: nohup, and `grun ... &` in a script.
    wanted = [number for number in FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda *_: None) for number in wanted}
    old = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(old)
        for number, handler in before.items():
            signal.signal(number, handler)
        reader.close()
        writer.close()


class _Output:
    """Writes the tasks' output to grun's own. While it cannot be written, signals are still passed on."""

    def __init__(self, wake: socket.socket) -> None:
        self._wake = wake

    def write(self, fd: int, piece: bytes, signals: Callable[[], None]) -> None:
        """Write it all. Raises BrokenPipeError when nobody reads any more."""
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        poll.register(self._wake, select.POLLIN)
        view = memoryview(piece)
        while view:
            ready = dict(poll.poll())
            if self._wake.fileno() in ready:
                signals()
            if fd in ready:
                # A pipe that is ready takes PIPE_BUF bytes without blocking; the descriptor is others' too, so it
                # cannot be made non-blocking here.
                view = view[os.write(fd, view[: select.PIPE_BUF]) :]
