"""gsched.toml: what it means, and what each mistake is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.config.fabric import with_topology
from gsched.config.layout import Layout
from gsched.config.load import load, parse
from gsched.config.settings import NodeSettings, Settings
from gsched.errors import BadConfig
from gsched.values.ids import NodeName

WHOLE = """
[cluster]
name = "lab"
owner_uid = 1000
allow_root = true

[controller]
socket = "/tmp/lab/gschedd.sock"
listen = "127.0.0.1:0"
state_dir = "/tmp/lab/state"

[agent]
listen = "[::1]:6816"

[times]
heartbeat_s = 1
node_timeout_s = 3
lost_after_s = 10

[limits]
jobs = 500

[scheduler]
planned_starts = 4

[[partition]]
name = "short"
nodes = "n[1-2]"
max_time_s = 3600
default_time_s = 600

[[partition]]
name = "long"
default = true

[[node]]
name = "n[1-3]"
features = ["h100", "ib"]

[[node]]
name = "x1"

[[switch]]
name = "leaf1"
nodes = "n[1-2]"

[[switch]]
name = "leaf2"
nodes = ["n3", "x1"]

[[switch]]
name = "spine"
switches = "leaf[1-2]"
"""


def test_an_empty_file_is_all_defaults() -> None:
    assert parse("") == Settings()


def test_every_section_is_read() -> None:
    settings = parse(WHOLE)
    assert (settings.cluster.name, settings.cluster.owner_uid, settings.cluster.allow_root) == ("lab", 1000, True)
    assert (settings.controller.listen, settings.agent.listen) == ("127.0.0.1:0", "[::1]:6816")
    assert (settings.times.lost_after_s, settings.limits.jobs, settings.scheduler.planned_starts) == (10, 500, 4)
    assert [p.name for p in settings.partitions] == ["short", "long"]
    assert settings.partitions[0].nodes == ("n1", "n2")


def test_one_entry_declares_many_nodes() -> None:
    assert parse(WHOLE).nodes == (
        *(NodeSettings(name=NodeName(f"n{i}"), features=("h100", "ib")) for i in (1, 2, 3)),
        NodeSettings(name=NodeName("x1")),
    )


def test_the_layout_says_what_the_settings_hold_of_a_node() -> None:
    layout = Layout(parse(WHOLE))
    n1, x1, guest = NodeName("n1"), NodeName("x1"), NodeName("guest")
    assert (layout.partitions_of(n1), layout.partitions_of(x1)) == (("short", "long"), ("long",))
    assert (layout.features_of(n1), layout.features_of(x1)) == (("h100", "ib"), ())
    assert (layout.switches_of(n1), layout.switches_of(x1)) == (("leaf1", "spine"), ("leaf2", "spine"))
    assert (layout.partitions_of(guest), layout.features_of(guest), layout.switches_of(guest)) == (("long",), (), ())
    assert layout.levels == ("leaf", "spine")
    assert (layout.domains_of(n1), layout.domains_of(guest)) == (("leaf1", "spine"), ("guest", "guest"))


def test_a_topology_file_stands_beside_the_settings(tmp_path: Path) -> None:
    (tmp_path / "t.conf").write_text("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n3\nSwitchName=c Switches=a,b\n")
    toml = tmp_path / "gsched.toml"
    toml.write_text('[topology]\nfile = "t.conf"\nlevels = ["rack", "row"]\n')
    settings = with_topology(load(toml), toml)
    assert Layout(settings).levels == ("rack", "row")
    assert Layout(settings).domains_of(NodeName("n3")) == ("b", "c")
    toml.write_text('[topology]\nfile = "t.conf"\nlevels = ["rack"]\n')
    with pytest.raises(BadConfig) as refused:
        with_topology(load(toml), toml)
    assert refused.value.text == (
        f"{toml}: [topology] levels: expected 2 names, from the lowest level up (now leaf, spine), found 1: rack"
    )


def test_the_only_partition_is_the_default() -> None:
    assert parse('[[partition]]\nname = "gpu"').partitions[0].default


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x = [", "g.toml: expected TOML, found: "),
        ("[clutser]", "g.toml: clutser: no such section (did you mean cluster?)"),
        ("[zzz]", "g.toml: zzz: no such section (known: cluster, controller, "),
        ("cluster = 3", "g.toml: cluster: expected a section [cluster], found 3"),
        (
            "[partition]\nname = 'a'",
            "g.toml: partition: expected entries [[partition]], with two brackets, found a table",
        ),
        ("[times]\nheartbeat = 3", "g.toml: [times] heartbeat: no such key (did you mean heartbeat_s?)"),
        ("[times]\nheartbeat_s = 'x'", '[times] heartbeat_s: expected a whole number, found the text "x"'),
        ("[times]\nheartbeat_s = 1.5", "[times] heartbeat_s: expected a whole number, found 1.5"),
        ("[times]\nheartbeat_s = true", "[times] heartbeat_s: expected a whole number, found true"),
        ("[times]\nheartbeat_s = 0", "[times] heartbeat_s: expected 1 or more, found 0"),
        ("[times]\nheartbeat_s = 60", "[times] node_timeout_s: expected more than heartbeat_s (60), found 60"),
        ("[times]\nlost_after_s = 9", "[times] lost_after_s: expected at least node_timeout_s (60), found 9"),
        (
            "[times]\nheartbeat_s = 99999999999999999999",
            "[times] heartbeat_s: expected 1000000000 or less, found 99999999",
        ),
        ("[limits]\njobs = -1", "[limits] jobs: expected 1 or more, found -1"),
        ("[cluster]\nname = 5", "[cluster] name: expected a text, found 5"),
        ("[cluster]\nname = 'a b'", '[cluster] name: expected letters, digits, dot, dash and underscore, found "a b"'),
        ("[cluster]\nowner_uid = 'me'", '[cluster] owner_uid: expected a whole number, found the text "me"'),
        ("[cluster]\nowner_uid = -1", "[cluster] owner_uid: expected a user's number, found -1"),
        ("[cluster]\nallow_root = 1", "[cluster] allow_root: expected true or false, found 1"),
        ("[controller]\nlisten = '6815'", '[controller] listen: expected HOST:PORT, found "6815"'),
        ("[controller]\nlisten = 'h:70000'", '[controller] listen: expected HOST:PORT, found "h:70000"'),
        ("[controller]\nsocket = 'x.sock'", '[controller] socket: expected an absolute path, found "x.sock"'),
        ("[[partition]]\nnodes = 'a'", "[[partition]] number 1: name: expected a text, found nothing"),
        ("[[partition]]\nname = 'a'\nnode = 'a'", '[[partition]] "a": node: no such key (did you mean nodes?)'),
        ("[[partition]]\nname = 'a'\nnodes = 'n[1'", "[[partition]] \"a\": nodes: not a node list: 'n[1'"),
        (
            "[[partition]]\nname = 'a'\nnodes = 3",
            '[[partition]] "a": nodes: expected a list of names, as "n[1-4]", found 3',
        ),
        (
            "[[partition]]\nname = 'a'\nmax_time_s = 5\ndefault_time_s = 6",
            "default_time_s: expected at most max_time_s (5), found 6",
        ),
        ("[[partition]]\nname = 'a'\nmax_time_s = -5", '[[partition]] "a": max_time_s: expected 0 or more, found -5'),
        ("[[partition]]\nname = 'a'\n[[partition]]\nname = 'a'", '[[partition]] "a": there are two of this name'),
        (
            "[[partition]]\nname = 'a'\n[[partition]]\nname = 'b'",
            "[[partition]]: expected one default partition, found none",
        ),
        (
            "[[partition]]\nname = 'a'\ndefault = true\n[[partition]]\nname = 'b'\ndefault = true",
            "[[partition]]: expected one default partition, found default = true in a and b",
        ),
        (
            "[[node]]\nname = 'n1'\n[[partition]]\nname = 'a'\nnodes = 'n[1-2]'",
            '[[partition]] "a": nodes: expected declared nodes ([[node]]), found "n2"',
        ),
        ("[[node]]\nname = 'n[1-3]'\n[[node]]\nname = 'n2'", '[[node]] "n2": there are two of this name'),
        (
            "[[node]]\nname = 'n1'\nfeatures = 'ib'",
            '[[node]] "n1": features: expected a list of texts, found the text "ib"',
        ),
        (
            "[[node]]\nname = 'n1'\nfeatures = ['a&b']",
            '[[node]] "n1": features: expected words of letters and digits, found "a&b"',
        ),
        ("node = [1, 'a']", 'node: expected entries [[node]], with two brackets, found the list [1, the text "a"]'),
        ("[[switch]]\nname = 'a b'", '[[switch]] "a b": name: expected letters, digits, dot, dash and underscore'),
        ("[[switch]]\nname = 's'", '[[switch]] "s": expected either nodes (a leaf) or switches, found neither'),
        (
            "[[switch]]\nname = 's'\nnodes = 'n9'",
            '[[switch]] "s": nodes: expected a name that a [[node]] declares, found "n9"',
        ),
        (
            "[[switch]]\nname = 's'\nswitches = 't'",
            '[[switch]] "s": switches: expected a name that a [[switch]] declares, found "t"',
        ),
        (
            "[[node]]\nname = 'n1'\n[[switch]]\nname = 's'\nnodes = 'n1'\n[[switch]]\nname = 't'\nnodes = 'n1'",
            '[[switch]] "t": node n1 hangs on "s" already; it can be on one switch',
        ),
        (
            "[topology]\nfile = 'x'\n[[node]]\nname = 'n'\n[[switch]]\nname = 's'\nnodes = 'n'",
            "[topology] file: expected either a file or [[switch]] tables, found both",
        ),
        (
            "[topology]\nformat = 'dot'",
            "[topology] format: expected one of auto, slurm, topograph, ibnetdiscover, yaml",
        ),
        ("[topology]\nlevels = ['a', 'a']", "[topology] levels: expected each name once, found a, a"),
        ("[[switch]]\nname = 's'\nswitches = 's'", "[[switch]]: expected a tree, found a circle: s < s"),
    ],
)
def test_a_mistake_names_file_key_expected_and_found(text: str, error: str) -> None:
    with pytest.raises(BadConfig) as refused:
        parse(text, "g.toml")
    assert refused.value.text.startswith("g.toml: ")
    assert error in refused.value.text


def test_a_circle_of_switches_is_shown() -> None:
    text = "".join(f"[[switch]]\nname = '{a}'\nswitches = '{b}'\n" for a, b in ("ab", "bc", "ca"))
    with pytest.raises(BadConfig, match="found a circle: "):
        parse(text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"none\.toml: cannot be read: No such file"):
        load(tmp_path / "none.toml")


def test_a_file_is_read_as_utf8(tmp_path: Path) -> None:
    path = tmp_path / "g.toml"
    path.write_bytes(b"# \xff")
    with pytest.raises(BadConfig, match="expected UTF-8, found another byte at offset 2"):
        load(path)
    path.write_text('[cluster]\nname = "lab"')
    assert load(path).cluster.name == "lab"
