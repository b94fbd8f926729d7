"""Results as a table, CSV, JSON, plots and a page; and two of them compared."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from gschedd.replay.main import main

TRACE = "job_id,submit_s,num_gpus,duration_s,vc\na,0,4,100,v\nb,1,8,10,v\nc,2,4,100,v\nd,3,2,50,v\n"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    (tmp_path / "t.csv").write_text(TRACE)
    return str(tmp_path / "t.csv")


def replay(trace: str, *more: str) -> int:
    return main(["replay", "--trace", trace, "--nodes", "1x8", "--setting", "oracle", *more])


def test_the_table_has_a_line_a_policy(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(trace) == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()[2:]]
    assert [line[:3] for line in lines] == [
        ["oracle", "fifo", "144"],
        ["oracle", "easy", "117"],
        ["oracle", "gsched", "117"],
    ]
    assert "x real time" in err


def test_the_same_command_gives_the_same_json(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for _ in range(2):
        assert replay(trace, "--json") == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert [run["wait_max_s"] for run in json.loads(texts[0])["runs"]] == [108, 108, 108]


def test_a_row_a_job(trace: str, tmp_path: Path) -> None:
    assert replay(trace, "--policy", "easy", "--csv", str(tmp_path / "jobs.csv")) == 0
    rows = list(csv.DictReader((tmp_path / "jobs.csv").read_text().splitlines()))
    assert [(row["job_id"], row["start_s"], row["end_s"], row["wait_s"]) for row in rows] == [
        ("a", "0", "100", "0"),
        ("b", "100", "110", "99"),
        ("c", "110", "210", "108"),
        ("d", "3", "53", "0"),
    ]


def test_the_report_needs_nothing_from_elsewhere(trace: str, tmp_path: Path) -> None:
    page, plots = tmp_path / "r.html", tmp_path / "plots"
    assert replay(trace, "--policy", "fifo,easy", "--report", str(page), "--plots", str(plots)) == 0
    text = page.read_text()
    assert text.count("<svg") == 5
    for word in ("http", "src=", "@import", "<script", "<link", 'url("', "//"):
        assert word not in text
    assert sorted(path.name for path in plots.glob("*.svg")) == [
        f"{name}-oracle.svg" for name in ("completions", "fragmentation", "utilisation", "waiting", "waits")
    ]
    assert len(list(plots.glob("*.png"))) == 5


def test_plots_without_matplotlib_are_refused_at_once(
    trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert replay(trace, "--plots", str(tmp_path / "p")) == 3
    assert "pip install 'gsched[sim]'" in capsys.readouterr().err


def test_comparing_tells_the_change(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for shape in ("1x8", "2x8"):
        main(["replay", "--trace", trace, "--nodes", shape, "--setting", "oracle", "--policy", "fifo", "--json"])
        files.append(tmp_path / f"{shape}.json")
        files[-1].write_text(capsys.readouterr().out)
    assert main(["compare", *map(str, files)]) == 0
    out, err = capsys.readouterr()
    assert "nodes differs: 1x8" in err
    line = next(line for line in out.splitlines() if "mean completion" in line)
    assert line.split()[-3:] == ["143.5", "67.0", "-53.3%"]  # the last starts at 11, when the second has ended


@pytest.mark.parametrize(
    ("words", "text", "status"),
    [
        (["--nodes", "8"], "NODESxGPUS", 2),
        (["--policy", "best"], "found 'best'; expected some of fifo,easy,gsched", 2),
        (["--setting", "all"], "found 'all'; expected some of blind,predicted,oracle,given", 2),
        (["--setting", "given"], "the trace has no limits", 2),
        (["--csv", "/no/such/place"], "cannot be written", 1),
    ],
)
def test_mistakes_are_named(
    trace: str, capsys: pytest.CaptureFixture[str], words: list[str], text: str, status: int
) -> None:
    assert replay(trace, *words) == status
    assert text in capsys.readouterr().err


def test_comparing_what_is_no_replay(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", trace, trace]) == 2
    assert "is not what gsim replay --json writes" in capsys.readouterr().err
    assert main(["compare", trace]) == 2
