"""A pass on file: what was written is read again and gives the same plan; what is not one is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from gsched.config.settings import ClusterSettings, SchedulerSettings, Settings
from gsched.errors import BadRequest, NotPermitted
from gsched.protocol.messages import TakeSnapshot
from gschedd.core.pass_file import VERSION, PassFile, differences, record_of, unpack
from gschedd.replay.main import main as gsim
from gschedd.replay.replay_pass import replayed
from tests.builders.controller import Controller

ONE_PLANNED = Settings(cluster=ClusterSettings(name="test"), scheduler=SchedulerSettings(planned_starts=1))


@pytest.fixture
def content() -> bytes:
    """Of a cluster with a run, a planned start, a job that waits and a name that is not UTF-8."""
    controller = Controller(nodes=2, settings=ONE_PLANNED)
    controller.submit(nodes_min=1, gpus_per_node=8, time_limit_s=3600)
    controller.plan()
    controller.submit(nodes_min=2, gpus_per_node=8, time_limit_s=3600)
    controller.submit(gpus_per_node=8, time_limit_s=7200)
    controller.submit(gpus_per_node=2, time_limit_s=60)
    return bytes(controller.inquire(TakeSnapshot(), uid=0).content)


def test_a_pass_gives_the_same_plan_again(content: bytes) -> None:
    found = replayed(unpack(content))
    assert (found.equal, found.differences) == (True, ())
    assert (found.nodes, found.runs, found.pending, found.starts, found.planned) == (2, 1, 3, 1, 1)


def test_what_differs_is_named(content: bytes) -> None:
    record = unpack(content)
    other = replace(record.plan, planned=(), starts=record.plan.starts * 0)
    lines = list(differences(record.plan, other))
    assert [line.split(":")[0] for line in lines] == ["starts of job 4", "planned of job 2"]
    assert not replayed(replace(record, plan=other)).equal
    assert list(differences(record.plan, record_of(record.plan))) == []  # type: ignore[arg-type]  # of the same fields


def test_only_an_administrator_takes_one() -> None:
    with pytest.raises(NotPermitted):
        Controller().inquire(TakeSnapshot())


def test_gsim_says_whether_it_is_the_same(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gschedd.replay.main.use_kernel_cache", lambda _base: None)  # numba is loaded already
    file = tmp_path / "pass"
    file.write_bytes(content)
    assert gsim(["replay-pass", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "The plan is the same."
    record = unpack(content)
    changed = replace(record, given=replace(record.given, queue=record.given.queue[:1]))
    found = replayed(changed)
    assert not found.equal


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a pass of gsched"),
        (b"\xff" * 100, "not a pass of gsched"),
        (msgspec.msgpack.encode({"format": "other", "version": 1, "software": "x", "packed": b""}), "'other'"),
        (msgspec.msgpack.encode(PassFile("gsched pass", VERSION + 1, "9", b"")), "version 2, written by 9"),
        (msgspec.msgpack.encode(PassFile("gsched pass", VERSION, "9", b"junk")), "damaged"),
    ],
)
def test_what_is_not_a_pass_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        unpack(content)
