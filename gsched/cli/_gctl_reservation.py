"""gctl reservation: keep nodes or GPUs for some users, or for maintenance, for a time."""

from __future__ import annotations

import pwd
import time
from typing import Final

import click
from click import argument, option

from gsched.cli._common import fail, group
from gsched.cli._moments import parse_moment
from gsched.client.blocking import connect, new_request_id
from gsched.errors import BadRequest, NotFound
from gsched.protocol.messages import CreateReservation, DeleteReservation, ListReservations
from gsched.render.records import record
from gsched.render.reservations import reservation_json, reservation_record
from gsched.render.text import json_text, shown
from gsched.spec.counts import parse_count
from gsched.spec.durations import parse_duration
from gsched.spec.nodelists import expand
from gsched.values.ids import Instant, NodeName

_FOR_EVER: Final = {"unlimited", "infinite"}


@group("reservation")
def reservation() -> None:
    """Keep nodes or GPUs for some users, or for maintenance, for a time."""


@reservation.command("create")
@argument("name")
@option("--nodes", "-w", metavar="NODES", help="These nodes, whole.")
@option("--gpus", multiple=True, metavar="COUNT@NODES", help="So many GPUs of each of these nodes; may be repeated.")
@option("--start", default="now", metavar="TIME", help="now, now+1hour, 2026-12-01T08:00, ...; now if not said.")
@option("--end", metavar="TIME", help="The same, or UNLIMITED: until it is deleted.")
@option("--duration", metavar="TIME", help="In place of --end, as gsub's --time.")
@option("--users", metavar="LIST", help="Who may use it.")
@option("--accounts", metavar="LIST", help="Whose jobs may use it.")
@option("--maint", is_flag=True, help="For maintenance: nobody's job runs inside.")
@option("--replace", "instead", is_flag=True, help="Change the one of that name, if there is one, as a whole.")
def create(
    name: str,
    nodes: str | None,
    gpus: tuple[str, ...],
    start: str,
    end: str | None,
    duration: str | None,
    users: str | None,
    accounts: str | None,
    maint: bool,
    instead: bool,
) -> None:
    """Make a reservation. Jobs of others that would run into it wait; what runs there goes on."""
    now = Instant(time.time_ns() // 1_000_000)
    begins = parse_moment(start, now)
    names = _words(users, "users")
    request = CreateReservation(
        request_id=new_request_id(),
        name=name,
        nodes=tuple(dict.fromkeys(expand(nodes))) if nodes else (),
        gpus=tuple(_gpus(text) for text in gpus),
        start=Instant(0) if start == "now" else begins,
        end=_end(end, duration, begins, now),
        users=names,
        uids=tuple(_uid(user) for user in names),
        accounts=_words(accounts, "accounts"),
        maint=maint,
        replace=instead,
    )
    with connect() as client:
        done = client.call(request)
    if done.note:
        click.echo(shown(done.note))


def _end(end: str | None, duration: str | None, begins: Instant, now: Instant) -> Instant | None:
    if (end is None) == (duration is None):
        fail("say how long: --end=TIME or --duration=TIME, one of them; UNLIMITED is until it is deleted", status=2)
    if duration is not None:
        seconds = parse_duration(duration)
        return Instant(begins + 1000 * seconds) if seconds else None
    assert end is not None
    return None if end.lower() in _FOR_EVER else parse_moment(end, now)


def _gpus(text: str) -> tuple[int, tuple[NodeName, ...]]:
    count, at, nodes = text.partition("@")
    if not at or not nodes:
        raise BadRequest(f"--gpus: expected COUNT@NODES, as 4@n[1-2]: {text!r}")
    return parse_count(count, "GPUs"), tuple(dict.fromkeys(expand(nodes)))


def _words(text: str | None, what: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(word.strip() for word in text.split(","))) if text is not None else ()
    if "" in words:
        raise BadRequest(f"--{what}: an empty name in {text!r}")
    return words


def _uid(user: str) -> int:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise NotFound(f"no such user: {user!r}") from None


@reservation.command("delete")
@argument("name")
def delete(name: str) -> None:
    """End a reservation."""
    with connect() as client:
        client.call(DeleteReservation(request_id=new_request_id(), name=name))


@reservation.command("show")
@argument("names", nargs=-1, metavar="[NAME]...")
@option("-o", "--oneliner", is_flag=True, help="One line a reservation.")
@option("--json", "as_json", is_flag=True, help="For programs.")
def show(names: tuple[str, ...], oneliner: bool, as_json: bool) -> None:
    """Show reservations, the first to begin first; without names all."""
    with connect() as client:
        page = client.call(ListReservations(tuple(names)))
    if as_json:
        click.echo(json_text({"reservations": [reservation_json(row) for row in page.rows]}))
        return
    texts = [record(reservation_record(row), oneliner) for row in page.rows]
    click.echo(("\n" if oneliner else "\n\n").join(texts) if texts else "No reservations in the system")
