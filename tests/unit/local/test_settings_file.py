"""gsched.toml of a local cluster: what is chosen once, and what an edit may do."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from gsched.errors import BadConfig, BadRequest
from gsched.local.place import Place, make_place
from gsched.local.settings_file import (
    Wanted,
    free_ports,
    node_names,
    read_settings,
    require_same,
    require_sensible,
    write_settings,
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path / "c", node_names(4))


def test_four_simulated_nodes_are_written_and_read(place: Place) -> None:
    write_settings(place, Wanted(nodes=4, simulate="8xH100-SXM"))
    settings = read_settings(place)
    assert (settings.cluster.name, settings.cluster.owner_uid) == ("local", os.getuid())
    assert settings.cluster.allow_root is (os.getuid() == 0)
    assert settings.controller.socket == str(place.socket)
    assert settings.controller.state_dir == str(place.state)
    assert [node.name for node in settings.nodes] == ["n1", "n2", "n3", "n4"]
    assert [partition.name for partition in settings.partitions] == ["main"]
    assert {switch.name: (*switch.nodes, *switch.switches) for switch in settings.switches} == {
        "leaf1": ("n1", "n2"),
        "leaf2": ("n3", "n4"),
        "spine": ("leaf1", "leaf2"),
    }
    assert [agent.ports for agent in settings.local_agents] == [
        "20000-22499",
        "22500-24999",
        "25000-27499",
        "27500-29999",
    ]
    assert {agent.simulate for agent in settings.local_agents} == {"8xH100-SXM"}


def test_every_listener_is_on_this_machine_with_a_port_of_its_own(place: Place) -> None:
    write_settings(place, Wanted(nodes=4))
    settings = read_settings(place)
    addresses = [settings.controller.listen, *(agent.listen for agent in settings.local_agents)]
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    assert len(set(addresses)) == 5


@pytest.mark.parametrize("nodes", [1, 2, 3, 100])
def test_any_number_of_nodes_makes_settings_that_load(place: Place, nodes: int) -> None:
    write_settings(place, Wanted(nodes=nodes))
    settings = read_settings(place)
    assert len(settings.local_agents) == nodes
    assert {node for switch in settings.switches for node in switch.nodes} == (
        set() if nodes == 1 else set(node_names(nodes))
    )


def test_root_is_told_what_its_jobs_run_as(place: Place) -> None:
    write_settings(place, Wanted())
    text = place.settings.read_text()
    assert ("allow_root = true" in text) is (os.getuid() == 0)
    assert ("its jobs run as root" in text) is (os.getuid() == 0)


def test_a_directory_with_an_odd_name_is_quoted(tmp_path: Path) -> None:
    place = make_place(tmp_path / 'o"dd \\ näme', node_names(1))
    write_settings(place, Wanted())
    assert read_settings(place).controller.socket == str(place.socket)


def test_the_same_wishes_or_none_fit_what_is_remembered(place: Place) -> None:
    write_settings(place, Wanted(nodes=4, simulate="8xH100-SXM"))
    settings = read_settings(place)
    require_same(place, settings, Wanted())
    require_same(place, settings, Wanted(nodes=4, simulate="8xH100-SXM", name="local"))


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (Wanted(nodes=5), "--nodes 5: the cluster in .* was made with 4"),
        (Wanted(simulate="4xA100"), "--simulate 4xA100: .* was made with 8xH100-SXM"),
        (Wanted(name="other"), "--name other: .* was made with local"),
    ],
)
def test_other_wishes_are_refused_with_what_is_remembered(place: Place, wanted: Wanted, text: str) -> None:
    write_settings(place, Wanted(nodes=4, simulate="8xH100-SXM"))
    with pytest.raises(BadRequest, match=text):
        require_same(place, read_settings(place), wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(nodes=0),
        Wanted(nodes=-3),
        Wanted(nodes=101),
        Wanted(name="a b"),
        Wanted(name=""),
        Wanted(simulate="H100"),
    ],
)
def test_what_no_cluster_can_be_is_refused(wanted: Wanted) -> None:
    with pytest.raises(BadRequest, match=r"--(nodes|name|simulate)"):
        require_sensible(wanted)


def test_a_directory_that_was_moved_says_which_keys_to_change(place: Place, tmp_path: Path) -> None:
    write_settings(place, Wanted())
    place.directory.rename(tmp_path / "moved")
    with pytest.raises(BadConfig, match=r"was the directory moved\? Then put the new path"):
        read_settings(Place(tmp_path / "moved"))


def test_a_node_named_twice_is_refused(place: Place) -> None:
    write_settings(place, Wanted(nodes=2))
    place.settings.write_text(place.settings.read_text().replace('name = "n2"\nlisten', 'name = "n1"\nlisten'))
    with pytest.raises(BadConfig, match=r"\[\[local_agent\]\] n1"):
        read_settings(place)


def test_a_port_on_which_something_listens_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr("gsched.local.settings_file._LISTEN", range(port, port + 1))
        with pytest.raises(BadRequest, match="1 free ports are needed"):
            free_ports(1)
