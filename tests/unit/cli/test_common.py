"""How every command ends, and what it says on stderr."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from gsched.cli._common import command, fail, group, note, run, warn
from gsched.errors import Impossible, NoController


@command("gtest")
@click.option("-t", "--time", "time")
@click.option("--secret", hidden=True)
@click.argument("words", nargs=-1)
def gtest(time: str | None, secret: str | None, words: tuple[str, ...]) -> int | None:
    """A command to test with."""
    match words[:1]:
        case ("impossible",):
            raise Impossible("9 GPUs on one node were asked, the largest has 8")
        case ("away",):
            raise NoController("nothing listens at /run/x")
        case ("fail",):
            fail("it\nbroke \x1b[31m", 9)
        case ("interrupted",):
            raise KeyboardInterrupt
        case ("three",):
            return 3
        case ("speak",):
            click.echo("out")
            warn("old")
            note("spread over 2 nodes")
    click.echo(f"{time} {secret} {words}")
    return None


@group("gmany")
def gmany() -> None:
    """A command with sub-commands."""


@gmany.command("drain")
@click.argument("node")
def drain(node: str) -> int:
    click.echo(node)
    return 4


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = run(gtest, "gtest", argv)
    output = capsys.readouterr()
    return status, output.out, output.err


def test_a_command_that_ends_well_has_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "-t", "5", "a") == (0, "5 None ('a',)\n", "")


def test_the_number_a_command_returns_is_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "three") == (3, "", "")


@pytest.mark.parametrize(
    ("word", "status", "text"),
    [
        ("impossible", 3, "gtest: error: 9 GPUs on one node were asked, the largest has 8\n"),
        ("away", 69, "gtest: error: nothing listens at /run/x\n"),
        ("fail", 9, "gtest: error: it broke \\x1b[31m\n"),
        ("interrupted", 130, "gtest: interrupted\n"),
    ],
)
def test_an_error_is_one_line_under_the_commands_name(
    capsys: pytest.CaptureFixture[str], word: str, status: int, text: str
) -> None:
    assert said(capsys, word) == (status, "", text)


def test_an_unknown_option_is_answered_with_the_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    expected = "gtest: error: unknown option --tme (did you mean --time?); see gtest --help\n"
    assert said(capsys, "--tme=5") == (2, "", expected)


def test_a_hint_never_names_a_hidden_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--secre") == (2, "", "gtest: error: unknown option --secre; see gtest --help\n")


def test_an_option_without_its_value_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = said(capsys, "--time")
    assert (status, out) == (2, "")
    assert err.startswith("gtest: error: option '--time' requires an argument")
    assert err.count("\n") == 1


def test_warnings_and_notes_go_to_stderr_and_the_command_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = said(capsys, "speak")
    assert (status, out) == (0, "out\nNone None ('speak',)\n")
    assert err == "gtest: warning: old\ngtest: spread over 2 nodes\n"


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = said(capsys, "--version")
    assert (status, err) == (0, "")
    assert out.startswith("gsched 0.")


def test_help_goes_to_stdout_with_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = said(capsys, "--help")
    assert (status, err) == (0, "")
    assert out.startswith("Usage: gtest")


def test_a_sub_command_gives_its_status_and_an_unknown_one_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(gmany, "gmany", ["drain", "n1"]) == 4
    assert capsys.readouterr().out == "n1\n"
    assert run(gmany, "gmany", ["drian", "n1"]) == 2
    expected = "gmany: error: unknown sub-command 'drian' (did you mean drain?); see gmany --help\n"
    assert capsys.readouterr().err == expected


def test_a_group_without_a_sub_command_says_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(gmany, "gmany", []) == 2
    assert capsys.readouterr() == ("", "gmany: error: say which: drain; see gmany --help\n")


def test_a_reader_that_went_away_ends_the_command_as_sigpipe_would() -> None:
    code = (
        "import sys, click; from gsched.cli._common import command, run\n"
        "@command('gmuch')\n"
        "def gmuch():\n"
        "    for n in range(100000): click.echo('a line that fills the pipe')\n"
        "sys.exit(run(gmuch, 'gmuch', []))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(10), err) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which no write succeeds on")
@pytest.mark.parametrize(
    ("script", "status", "err"),
    [
        ("click.echo('x')", 1, "gfull: error: the output cannot be written: No space left on device\n"),
        ("note('spread'); return 3", 3, "gfull: spread\n"),
    ],
)
def test_a_full_disk_under_the_output_is_an_error_in_one_line(script: str, status: int, err: str) -> None:
    assert on_full_disk(script, "stdout") == (status, err)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which no write succeeds on")
def test_a_full_disk_under_stderr_leaves_the_exit_status() -> None:
    assert on_full_disk("fail('no', 9)", "stderr") == (9, "")


def on_full_disk(script: str, stream: str) -> tuple[int, str]:
    """Run a command whose stream is full; its exit status and the other stream's content."""
    code = (
        "import sys, click; from gsched.cli._common import command, fail, note, run\n"
        f"@command('gfull')\ndef gfull():\n    {script}\n"
        "sys.exit(run(gfull, 'gfull', []))"
    )
    with open("/dev/full", "w") as full:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: full}
        done = subprocess.run([sys.executable, "-c", code], check=False, text=True, **streams)
    return done.returncode, done.stderr or done.stdout or ""
