"""Nodes come, speak, fall silent and return: what the controller then compares (reliability rules 7, 9, 10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from gsched.auth.tickets import node_key
from gsched.protocol.link import (
    PROTOCOL_VERSION,
    Acks,
    ActualRun,
    AgentHello,
    Heartbeat,
    HeartbeatAck,
    NeedWhole,
    Orders,
    Refused,
    RunReport,
    StepReport,
    WantedRun,
    Welcome,
)
from gsched.values.ids import NodeName, RunKey
from gsched.values.node import Node
from gsched.values.run import NodePhase
from gschedd.lifecycle.wanted import launch_spec, needs_launch, wanted_run
from gschedd.services import runs
from gschedd.services.steps import on_step_report
from gschedd.state import StateChange

_TICK_MS: Final = 1000
_ORDERS_BYTES: Final = 2 * 1024 * 1024  # one entry alone may have 5 MiB, a frame 8
_LATE_MS: Final = 3000  # a gap between ticks above this is the loop's lateness, not the nodes' silence


# --- coming and going


def arrive(change: StateChange, session: int, certified: NodeName, hello: AgentHello, secret: bytes) -> None:
    """Admit a session, compare what the agent has with what is wanted, and tell it the whole wanted set."""
    state = change.state
    fatal = _from_the_future(change, hello)
    if fatal:
        change.outcome.fatal = fatal
        return
    refusal = _refusal(change, certified, hello)
    if refusal:
        change.send(session, Refused(*refusal))
        change.close(session, refusal[1])
        return
    name = hello.node
    old = state.presence[name].session if name in state.presence else None
    if old is not None:
        state.sessions.pop(old, None)
        change.close(old, "the same node opened a newer session")
    _store_node(change, hello)
    presence = state.presence[name]
    presence.session, presence.heard, presence.next_seq = session, change.now.boot, 1
    presence.reconciled = True
    state.node_changed(name)
    state.sessions[session] = name
    _compare(change, hello)
    change.touched.pop(name, None)
    whole, later = _in_pieces(wanted_set(change, name))
    change.send(
        session,
        Welcome(
            term=state.term,
            cluster=state.settings.cluster.name,
            heartbeat_s=state.settings.times.heartbeat_s,
            ticket_key=node_key(secret, name),
            owner_uid=state.settings.cluster.owner_uid,
            comeback_s=min(60.0, max(1.0, len(state.nodes) / 200)),
            whole=whole,
        ),
    )
    _send_later(change, name, later)
    change.ask_plan()


def _from_the_future(change: StateChange, hello: AgentHello) -> str:
    """Proof that the store went back in time (rule 10), or nothing."""
    if hello.highest_term > change.state.term:
        return (
            f"node {hello.node} has obeyed term {hello.highest_term}, this store is at term {change.state.term}: "
            "the database went back in time, or another controller is in charge"
        )
    unknown = [run.key for run in hello.runs if run.key.job >= change.state.next_job_id]
    if unknown:
        return f"node {hello.node} has run {unknown[0]}, which this store cannot know: the database went back in time"
    return ""


def _refusal(change: StateChange, certified: NodeName, hello: AgentHello) -> tuple[str, str] | None:
    if certified != hello.node:
        return "not_permitted", f"the certificate is for node {certified}, the hello says {hello.node}"
    if hello.version[0] != PROTOCOL_VERSION[0] or abs(hello.version[1] - PROTOCOL_VERSION[1]) > 1:
        return "protocol", f"protocol {hello.version} here, {PROTOCOL_VERSION} there: at most one minor apart"
    node = change.state.nodes.get(hello.node)
    if node is None:
        return None
    presence = change.state.presence[hello.node]
    if presence.session is not None and (node.machine_id, node.boot_id) != (hello.machine_id, hello.boot_id):
        return "conflict", f"another machine is connected as {hello.node}"
    if node.machine_id and node.machine_id != hello.machine_id:
        return (
            "conflict",
            f"{hello.node} is known as another machine: `gctl node replace {hello.node}` if it was replaced",
        )
    return None


def _store_node(change: StateChange, hello: AgentHello) -> None:
    old = change.state.nodes.get(hello.node)
    if old is None:
        change.note("node.joined", node=hello.node)
        old = Node(name=hello.node, inventory=hello.inventory, first_seen=change.at)
    new = replace(
        old,
        inventory=hello.inventory,
        address=hello.stream_address,
        machine_id=hello.machine_id,
        boot_id=hello.boot_id,
        lost_at=None,
    )
    if old.lost_at is not None:
        change.note("node.returned", node=hello.node)
    if new != change.state.nodes.get(hello.node):
        change.put_node(new)


def _compare(change: StateChange, hello: AgentHello) -> None:
    """The table of reliability.md: what the controller has against what the agent has."""
    state = change.state
    name = hello.node
    actual = {run.key for run in hello.runs}
    state.presence[name].foreign = {r.key for r in hello.runs if _alive(r) and r.key not in state.use[name].runs}
    for key, index in list(state.use[name].runs.items()):
        part = state.runs[key].parts[index]
        if key in actual:
            continue  # the agent's own reports follow
        if not part.boot_id:
            continue  # never confirmed: it is in the whole set
        if part.boot_id != hello.boot_id:
            runs.lose_part(change, state.runs[key], index, f"{name} was restarted", NodePhase.CLEAN)
            continue
        node = state.nodes[name]
        if not node.drained:
            change.put_node(runs.drained(change, node, f"the spool of {name} was lost: run {key} is not known there"))
        runs.lose_part(change, state.runs[key], index, f"the spool of {name} was lost", NodePhase.LOST)


def _alive(run: ActualRun) -> bool:
    return run.phase is not NodePhase.CLEAN


def wanted_set(change: StateChange, name: NodeName) -> tuple[WantedRun, ...]:
    """All that is wanted of a node."""
    found = (wanted_entry(change, name, key) for key in change.state.use[name].runs)
    return tuple(entry for entry in found if entry is not None)


def wanted_entry(change: StateChange, name: NodeName, key: RunKey) -> WantedRun | None:
    """What is wanted of one run on a node; None = nothing any more."""
    state = change.state
    index = state.use[name].runs.get(key)
    if index is None:
        return None
    run = state.runs[key]
    launch = None
    if needs_launch(run, index):
        job = state.jobs[run.job]
        launch = launch_spec(job, state.payloads[job.id], run, index, state.nodes, state.settings.cluster.name)
    return wanted_run(run, index, launch)


def send_orders(change: StateChange) -> None:
    """Tell each connected node what changed in its wanted set; the others are told all when they return."""
    for name, keys in change.touched.items():
        presence = change.state.presence[name]
        if presence.session is None:
            continue
        put: list[WantedRun] = []
        drop: list[RunKey] = []
        for key in keys:
            entry = wanted_entry(change, name, key)
            if entry is None:
                drop.append(key)
            else:
                put.append(entry)
        now, later = _in_pieces(put)
        _send(change, name, Orders(term=change.state.term, seq=presence.next_seq, put=now, drop=tuple(drop)))
        _send_later(change, name, later)


def _in_pieces(entries: Sequence[WantedRun]) -> tuple[tuple[WantedRun, ...], list[WantedRun]]:
    """Keep one message well below the largest frame: what does not fit is named now, and told in full afterwards."""
    room = _ORDERS_BYTES
    now: list[WantedRun] = []
    later: list[WantedRun] = []
    for entry in entries:
        size = _size(entry)
        if entry.launch is not None and now and size > room:
            now.append(replace(entry, launch=None, launch_follows=True))
            later.append(entry)
        else:
            now.append(entry)
            room -= size
    return tuple(now), later


def _size(entry: WantedRun) -> int:
    """Bytes of what users wrote; the rest of an entry is small."""
    if entry.launch is None:
        return 0
    return len(entry.launch.script) + sum(len(k) + len(v) for k, v in entry.launch.environment.items())


def _send(change: StateChange, name: NodeName, orders: Orders) -> None:
    presence = change.state.presence[name]
    assert presence.session is not None
    presence.next_seq += 1
    change.send(presence.session, orders)


def _send_later(change: StateChange, name: NodeName, entries: Sequence[WantedRun]) -> None:
    for entry in entries:
        seq = change.state.presence[name].next_seq
        _send(change, name, Orders(term=change.state.term, seq=seq, put=(entry,)))


def said(change: StateChange, session: int, message: Heartbeat | RunReport | StepReport | NeedWhole) -> None:
    """One message of an admitted agent. A message of an old session counts for nothing."""
    state = change.state
    name = state.sessions.get(session)
    if name is None:
        return
    presence = state.presence[name]
    presence.heard = change.now.boot
    if isinstance(message, Heartbeat):
        change.send(session, HeartbeatAck(message.number, presence.next_seq - 1))
    elif isinstance(message, NeedWhole):
        whole, later = _in_pieces(wanted_set(change, name))
        _send(change, name, Orders(term=state.term, seq=presence.next_seq, put=whole, whole=True))
        _send_later(change, name, later)
    elif message.node != name:
        change.close(session, f"{name} reported for {message.node}")
        gone(change, session)
    else:
        if isinstance(message, RunReport):
            runs.on_report(change, name, message)
        else:
            on_step_report(change, message)
        change.send(session, Acks((message.seq,)))


def gone(change: StateChange, session: int) -> None:
    """A session ended. Nothing is killed and nothing is lost yet: silence has its own clock."""
    name = change.state.sessions.pop(session, None)
    if name is not None:
        presence = change.state.presence[name]
        presence.session = None
        change.state.node_changed(name)


# --- time


def tick(change: StateChange, since_last_ms: int) -> None:
    """Judge silence and deadlines. What the loop itself was late by is nobody's silence (rule 9)."""
    state = change.state
    if since_last_ms > _LATE_MS:
        state.all_later(since_last_ms - _TICK_MS)
    times = state.settings.times
    for name, presence in state.presence.items():
        silent = change.now.boot - presence.heard
        if silent > 1000 * times.node_timeout_s and presence.session is not None:
            change.close(presence.session, f"{name} was silent for {silent // 1000} s")
            gone(change, presence.session)
        if silent > 1000 * times.lost_after_s and presence.session is None and state.nodes[name].lost_at is None:
            lose_node(change, name)
    for key in [key for key, at in state.run_deadlines.items() if at <= change.now.boot]:
        del state.run_deadlines[key]
        runs.on_deadline(change, state.runs[key])


def lose_node(change: StateChange, name: NodeName) -> None:
    """The node was silent for lost_after: its runs are lost, once. Whether they still run there is not known."""
    state = change.state
    change.note("node.lost", node=name)
    change.put_node(replace(state.nodes[name], lost_at=change.at))
    for key, index in list(state.use[name].runs.items()):
        run = state.runs[key]
        if run.parts[index].phase is not NodePhase.LOST:
            runs.lose_part(change, run, index, f"{name} does not respond", NodePhase.LOST)
    change.ask_plan()
