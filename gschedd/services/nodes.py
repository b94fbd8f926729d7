"""What an administrator says of nodes: drain, undrain, replaced, dead."""

from __future__ import annotations

from msgspec.structs import replace

from gsched.errors import BadRequest, Conflict, NotFound
from gsched.protocol.messages import Done, DrainNode, NodeDead, NodeReplaced
from gsched.values.ids import NodeName
from gsched.values.node import Node
from gsched.values.run import NodePhase
from gschedd.events import Call
from gschedd.services import runs
from gschedd.services.rights import admin_only
from gschedd.state import State, StateChange


def find_node(state: State, name: NodeName) -> Node:
    """Raises NotFound."""
    node = state.nodes.get(name)
    if node is None:
        known = ", ".join(sorted(state.nodes)[:8]) or "none yet"
        raise NotFound(f"node {name}: not known; known are {known}")
    return node


def drain(change: StateChange, call: Call, request: DrainNode) -> Done:
    """Give nothing new to the nodes, or take that back. What runs there goes on."""
    admin_only(change.state, call)
    if not request.undrain and not request.reason.strip():
        raise BadRequest("draining a node needs a reason, for whoever finds it drained")
    for node in [find_node(change.state, name) for name in request.nodes]:  # all are known before one is changed
        if request.undrain:
            node = replace(node, drained=False, drain_reason="", drained_by="", drained_at=None, failed_jobs=())
        else:
            node = replace(node, drained=True, drain_reason=request.reason, drained_by=call.user, drained_at=change.at)
        change.put_node(node)
        kind = "node.undrained" if request.undrain else "node.drained"
        change.note(kind, node=node.name, uid=call.uid, text=request.reason)
    change.ask_plan()
    return Done()


def dead(change: StateChange, call: Call, request: NodeDead) -> Done:
    """The administrator vouches that nothing runs on a silent node: its lost runs are certainly over."""
    state = change.state
    admin_only(state, call)
    node = find_node(state, request.node)
    lost = [
        (key, index)
        for key, index in state.use[node.name].runs.items()
        if state.runs[key].parts[index].phase is NodePhase.LOST
    ]
    if state.presence[node.name].session is not None and not lost:
        raise Conflict(f"node {node.name} is connected and nothing is lost there: drain it, or cancel its jobs")
    if state.presence[node.name].session is None:
        lost = list(state.use[node.name].runs.items())
        change.put_node(replace(node, lost_at=node.lost_at or change.at))
    for key, index in lost:
        runs.lose_part(change, state.runs[key], index, f"{node.name} was declared dead", NodePhase.CLEAN)
    change.note("node.dead", node=node.name, uid=call.uid)
    change.ask_plan()
    return Done(f"{len(lost)} runs on {node.name} are over")


def replaced(change: StateChange, call: Call, request: NodeReplaced) -> Done:
    """The machine behind a node's name was replaced: the next machine that comes under it is accepted."""
    state = change.state
    admin_only(state, call)
    node = find_node(state, request.node)
    if state.presence[node.name].session is not None:
        raise Conflict(f"node {node.name} is connected: stop its agent first")
    change.put_node(replace(node, machine_id=""))
    change.note("node.replaced", node=node.name, uid=call.uid)
    return Done()
