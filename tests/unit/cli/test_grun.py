"""grun's command line: how large a step is, what the environment lets through, which options exist."""

from __future__ import annotations

import pytest

from gsched.cli.grun import JobShape, Wanted, exported, main, step_size
from gsched.errors import BadRequest
from gsched.spec.step_layout import Room
from gsched.values.ids import JobId, NodeName

TWO_BY_EIGHT = JobShape(JobId(7), (Room(NodeName("n1"), 8), Room(NodeName("n2"), 8)), ntasks=16, tasks_per_node=8)


@pytest.fixture(autouse=True)
def _outside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GSCHED_JOB_ID", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("wanted", "size"),
    [
        (Wanted(), (16, None, 2)),
        (Wanted(ntasks=3), (3, None, 2)),
        (Wanted(ntasks=1), (1, None, 1)),
        (Wanted(nodes=1), (8, None, 1)),
        (Wanted(per_node=1), (2, 1, 2)),
        (Wanted(nodes=1, per_node=4), (4, 4, 1)),
        (Wanted(ntasks=6, per_node=4), (6, 4, 2)),
    ],
)
def test_what_is_not_said_comes_from_the_job(wanted: Wanted, size: tuple[int, int | None, int]) -> None:
    assert step_size(wanted, TWO_BY_EIGHT, {}) == size


def test_more_nodes_than_the_job_has_are_refused() -> None:
    with pytest.raises(BadRequest, match="asked for 3 nodes, but job 7 has 2"):
        step_size(Wanted(nodes=3), TWO_BY_EIGHT, {})


def test_the_jobs_tasks_per_node_count_too() -> None:
    assert step_size(Wanted(), TWO_BY_EIGHT, {"SLURM_NTASKS_PER_NODE": "8"}) == (16, 8, 2)
    with pytest.raises(BadRequest, match="SLURM_NTASKS_PER_NODE is '-1': expected a number, at least 1"):
        step_size(Wanted(), TWO_BY_EIGHT, {"SLURM_NTASKS_PER_NODE": "-1"})


def test_export_all_none_and_lists() -> None:
    environment = {"HOME": "/h", "SLURM_JOB_ID": "7", "A": "1"}
    assert exported(environment, None) == environment
    assert exported(environment, "NONE") == {"SLURM_JOB_ID": "7"}
    assert exported(environment, "A,B=2") == {"SLURM_JOB_ID": "7", "A": "1", "B": "2"}
    assert exported(environment, "ALL,A=3") == {**environment, "A": "3"}


def test_outside_a_job_it_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hostname"]) == 2
    assert "grun: error: not inside a job" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--pty", "--overlap", "-w", "--gres"])
def test_an_option_of_srun_that_is_not_there_yet_is_named(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([option, "hostname"]) == 2
    assert f"srun's option {option} is not supported yet" in capsys.readouterr().err


def test_an_unknown_option_is_an_error_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--no-such", "hostname"]) == 2
    assert "unknown option --no-such" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--kill-on-bad-exit=1"], ["-K"], ["-n", "2", "-K1"], ["-ln2", "-K0"], ["-u"], ["--mpi=none"]]
)
def test_options_that_scripts_write_are_read(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "hostname", "--kill-on-bad-exit=1"]) == 2
    assert "not inside a job" in capsys.readouterr().err
