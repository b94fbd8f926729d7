"""gsched-agent: the node's daemon. The only module that names uvloop."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import structlog
import uvloop

from agent.build import AgentOptions, build, listen_on, spool_lock
from agent.inventory.survey import parse_ports, take_inventory
from gsched import __version__
from gsched.clock import SystemClock
from gsched.config.load import load
from gsched.config.settings import Settings
from gsched.errors import BadConfig, BadRequest, GschedError
from gsched.log_stream import log_stream
from gsched.values.ids import NodeName
from gsched.values.node import Inventory


@click.command("gsched-agent")
@click.version_option(__version__, "-V", "--version", prog_name="gsched", message="%(prog)s %(version)s")
@click.option("--config", required=True, type=click.Path(path_type=Path), help="gsched.toml")
@click.option("--node", help="Name of this node; its certificate must name it too. Default: the host's.")
@click.option("--controller", help="HOST:PORT of the controller. Default: [controller] url or listen.")
@click.option("--spool", type=click.Path(path_type=Path), help="Directory of runs. Default: [agent] spool.")
@click.option("--socket", type=click.Path(path_type=Path), help="Socket for commands here. Default: [agent] socket.")
@click.option("--listen", help="HOST:PORT for streams of steps. Default: [agent] listen.")
@click.option("--simulate", default="", metavar="8xH100-SXM", help="Pretend to have these GPUs; jobs run for real.")
@click.option("--ports", default="20000-29999", help="Rendezvous ports that jobs here may get.")
@click.option("--pid-file", type=click.Path(path_type=Path), help="Where to write the process id.")
def gsched_agent(
    config: Path,
    node: str | None,
    controller: str | None,
    spool: Path | None,
    socket: Path | None,
    listen: str | None,
    simulate: str,
    ports: str,
    pid_file: Path | None,
) -> None:
    """Report what this node has and run jobs on it.

    SIGTERM stops the agent only: runs go on, and the next agent adopts them.
    """
    settings = load(config)
    options = AgentOptions(
        node=NodeName(node or os.uname().nodename.partition(".")[0]),
        controller=host_and_port(controller or settings.controller.url or settings.controller.listen, "--controller"),
        spool=(spool or Path(settings.agent.spool)).absolute(),
        socket=(socket or Path(settings.agent.socket)).absolute(),
        listen=host_and_port(listen or settings.agent.listen, "--listen"),
    )
    inventory = take_inventory(options.node, simulate, parse_ports(ports))
    with spool_lock(options.spool), _pid_file(pid_file):
        uvloop.run(_serve(options, settings, inventory))


def main(argv: Sequence[str] | None = None) -> int:
    """Give the exit status: 0 after SIGTERM or SIGINT, else that of the error, which is one line on stderr."""
    _log_to_stderr()
    try:
        gsched_agent.main(args=argv, prog_name="gsched-agent", standalone_mode=False)
    except GschedError as error:
        return _failed(error.text, error.exit_status)
    except click.ClickException as error:
        return _failed(error.format_message(), BadRequest.exit_status)
    except (KeyboardInterrupt, click.Abort):
        return 0
    return 0


async def _serve(options: AgentOptions, settings: Settings, inventory: Inventory) -> None:
    """Run until SIGTERM or SIGINT."""
    _many_files()
    with listen_on(options.listen) as listener:
        agent = build(options, settings, SystemClock(), inventory, listener)
        running = asyncio.create_task(agent.run(), name="agent")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, running.cancel)
        try:
            await running
        except asyncio.CancelledError:
            structlog.get_logger().info("agent.stopped", node=options.node)
        except BaseExceptionGroup as group:
            raise _first(group) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What made a part fail; an error of ours is told in one line, another is a bug and is shown whole."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, GschedError) else group


def _many_files() -> None:
    """Each step that is followed takes two descriptors a task: allow as many as the system does."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextmanager
def _pid_file(path: Path | None) -> Iterator[None]:
    if path is None:
        yield
        return
    try:
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(f"{os.getpid()}\n")
        fresh.replace(path)
    except OSError as error:
        raise BadConfig(f"pid file {path} cannot be written: {error.strerror}") from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _log_to_stderr() -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        logger_factory=structlog.WriteLoggerFactory(log_stream()),
    )


def _failed(text: str, status: int) -> int:
    click.echo(f"gsched-agent: error: {' '.join(text.split())}", err=True)
    return status


def host_and_port(text: str, option: str) -> tuple[str, int]:
    """Read HOST:PORT. Raises BadRequest."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise BadRequest(f"{option} {text!r}: expected HOST:PORT, such as 10.0.0.1:6816")
    return host.strip("[]"), int(port)


if __name__ == "__main__":
    sys.exit(main())
