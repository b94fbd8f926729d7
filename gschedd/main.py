"""gschedd: the controller daemon. The only place that names uvloop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import structlog
import uvloop

from gsched import __version__
from gsched.cli._common import command, run
from gsched.clock import SystemClock
from gsched.config.fabric import with_topology
from gsched.config.load import load
from gsched.errors import BadConfig
from gsched.log_stream import log_stream
from gschedd.build import Address, Daemon, build, make_desk
from gschedd.kernel_cache import use_kernel_cache

_SWITCH_S: Final = 0.0005  # the writer waits so long for the interpreter after each statement, if the loop is busy
_GC_THRESHOLDS: Final = (50_000, 20, 50)

log = structlog.get_logger("gschedd")


@command("gschedd")
@click.option("--config", default="/etc/gsched/gsched.toml", show_default=True, help="The cluster's gsched.toml.")
@click.option("--pid-file", default="", help="Write the process's number here; removed at the end.")
@click.option("--compile", "compile_only", is_flag=True, help="Only compile what scheduling needs into the cache.")
def gschedd(config: str, pid_file: str, compile_only: bool) -> int:
    """Keep the queue, decide, tell the agents what is wanted."""
    _log_to_stderr()
    os.umask(0o077)
    settings = with_topology(load(config), config)
    use_kernel_cache(Path(settings.controller.cache_dir or Path(settings.controller.state_dir) / "cache"))
    _compile()
    if compile_only:
        return 0
    _allow_many_files()
    daemon = build(settings, SystemClock())
    _tune_interpreter()
    try:
        _write_pid(pid_file)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(daemon))
        log.info("stopped")
    finally:
        daemon.store.close()
        if pid_file:
            Path(pid_file).unlink(missing_ok=True)
    return 0


def _tune_interpreter() -> None:
    """For a process with few cycles, many long-lived values, and a writer and a planner beside the loop."""
    gc.freeze()  # what was loaded stays: no collection looks at it again
    gc.set_threshold(*_GC_THRESHOLDS)
    sys.setswitchinterval(_SWITCH_S)


def _compile() -> None:
    """So that no user waits for a compiler."""
    from gschedd.core.warm import compile_kernels  # numba is loaded here, after its cache was set up

    compile_kernels()


async def _serve(daemon: Daemon) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.controller.stop)
    await daemon.serve(make_desk(), _ready)


def _ready(address: Address) -> None:
    log.info("ready", socket=address.socket, listen=address.listen, version=__version__, pid=os.getpid())
    _tell_systemd("READY=1")


def _tell_systemd(state: str) -> None:
    """sd_notify: a datagram to $NOTIFY_SOCKET, where systemd started us with Type=notify."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        try:
            notify.sendto(state.encode(), "\0" + path[1:] if path.startswith("@") else path)
        except OSError as error:
            log.warning("systemd.not_told", error=str(error))


def _write_pid(path: str) -> None:
    if not path:
        return
    fresh = Path(f"{path}.{os.getpid()}")
    try:
        fresh.write_text(f"{os.getpid()}\n")
        fresh.replace(path)
    except OSError as error:
        raise BadConfig(f"--pid-file {path}: {error.strerror}") from None


def _allow_many_files() -> None:
    """Each agent and each client is an open file: take what the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _log_to_stderr() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        logger_factory=structlog.WriteLoggerFactory(log_stream()),
        cache_logger_on_first_use=True,
    )


def main(argv: Sequence[str] | None = None) -> int:
    return run(gschedd, "gschedd", argv)


if __name__ == "__main__":
    sys.exit(main())
