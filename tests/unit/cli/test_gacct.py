"""gacct's command line: what is wrong with it is said before anybody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.cli.gacct import main


@pytest.fixture(autouse=True)
def nobody_listens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GSCHED_SOCKET", str(tmp_path / "no.sock"))


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["-o", "jobid,sate"], 2, "no field is called 'sate' (did you mean State?)"),
        (["-S", "soon"], 2, "not a moment: 'soon'; expected YYYY-MM-DD"),
        (["-S", "2026-11-30", "-E", "2026-11-29"], 2, "the start '2026-11-30' is after the end '2026-11-29'"),
        (["-j", "12.0"], 2, "'12.0' is a step; a job is wanted here, as 12"),
        (["-j", "x"], 2, "not a job id: 'x'"),
        (["-s", "GONE"], 2, "not a job state: 'GONE'"),
        (["--frmat=jobid"], 2, "unknown option --frmat"),
        ([], 69, "no.sock"),
    ],
)
def test_a_mistake_is_one_line_with_its_status(
    capsys: pytest.CaptureFixture[str], words: list[str], status: int, said: str
) -> None:
    assert main(words) == status
    got = capsys.readouterr()
    assert got.out == ""
    assert got.err.startswith("gacct: error: ")
    assert said in got.err
    assert got.err.count("\n") == 1


def test_the_fields_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-e"]) == 0
    fields = capsys.readouterr().out.split()
    assert {"JobID", "State", "ExitCode", "AllocTRES", "DerivedExitCode"} <= set(fields)
    assert fields == sorted(fields, key=str.lower)
