"""Batch scripts: what is refused, and how directive lines are read (the rules of sbatch)."""

from __future__ import annotations

import pytest

from gsched.errors import BadRequest, TooLarge
from gsched.spec.scripts import SCRIPT_MAX_BYTES, check_script, read_directives, split_words


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (b"", r"job\.sh: the script is empty"),
        (b" \n\t\n", r"job\.sh: the script holds only white space"),
        (b"echo hello\n", r"job\.sh:1: the first line must begin with #! .*; found 'echo hello'"),
        (b"\n#!/bin/sh\n", r"job\.sh:1: the first line must begin with #!"),
        (b"#! \ntrue\n", r"job\.sh:1: the first line must begin with #! and name an interpreter; found '#! '"),
        (b"#!/bin/sh\necho\r\n", r"job\.sh:2: the line ends as in DOS"),
        (b"#!/bin/sh\r\n", r"job\.sh:1: the line ends as in DOS"),
        (b"#!/bin/sh\n\n\0", r"job\.sh:3: the script holds a NUL byte"),
        (b"\x7fELF\0", r"job\.sh:1: the script holds a NUL byte"),
    ],
)
def test_a_script_that_cannot_be_meant_is_refused_with_its_own_reason(script: bytes, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        check_script(script, "job.sh")


def test_a_script_over_4_mib_is_refused_with_the_limit() -> None:
    check_script(b"#!".ljust(SCRIPT_MAX_BYTES, b"x"), "job.sh")
    with pytest.raises(TooLarge, match=r"job\.sh: the script has more than 4194304 bytes, the most is 4194304"):
        check_script(b"#!".ljust(SCRIPT_MAX_BYTES + 1, b"x"), "job.sh")


def words(script: str) -> list[tuple[int, tuple[str, ...]]]:
    found = read_directives(script.encode(), "job.sh")
    assert not found.warnings
    return [(line.line, line.words) for line in found.lines]


def test_both_words_are_read_with_several_options_on_a_line() -> None:
    script = "#!/bin/sh\n#SBATCH -N 2 --mem=4G\n#GSUB -t 5\n"
    assert words(script) == [(2, ("-N", "2", "--mem=4G")), (3, ("-t", "5"))]


def test_only_column_1_in_capitals_with_one_hash_is_a_directive() -> None:
    assert words("#!/bin/sh\n #SBATCH -N1\n#sbatch -N2\n##SBATCH -N3\n# SBATCH -N4\n#SBATCH -N5") == [(6, ("-N5",))]


def test_blank_lines_and_comments_do_not_stop_the_reading_a_command_does() -> None:
    script = "#!/bin/sh\n\n   \n# comment\n   # another\n#SBATCH -n1\nset -e\n#SBATCH -n2\n"
    assert words(script) == [(6, ("-n1",))]


def test_nothing_is_expanded() -> None:
    assert words("#!/bin/sh\n#SBATCH -J $USER-`id`-~") == [(2, ("-J", "$USER-`id`-~"))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-J 'two words' -n 4", ["-J", "two words", "-n", "4"]),
        ('-J "it\'s"', ["-J", "it's"]),
        (r"-J two\ words", ["-J", "two words"]),
        ("-n 4 # the tasks", ["-n", "4"]),
        ("-n 4#x", ["-n", "4"]),
        (r"--image=host\#img", ["--image=host#img"]),
        ("-J 'a#b'", ["-J", "a#b"]),
        ("-J ''", ["-J", ""]),
        (r'-J "a\"b"', ["-J", 'a"b']),
        ("--comment=a'b c'd", ["--comment=ab cd"]),
        ("\t -n\t4 ", ["-n", "4"]),
        ("", []),
    ],
)
def test_words_are_split_as_sbatch_splits_them(text: str, expected: list[str]) -> None:
    assert split_words(text, "job.sh:2") == expected


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"#SBATCH -J 'open", r"job\.sh:3: a quote \('\) is not closed"),
        (b'#SBATCH -J "open', r'job\.sh:3: a quote \("\) is not closed'),
        (b"#SBATCH -J x \\", r"job\.sh:3: a backslash ends the line"),
        (b"#SBATCH -J \xff", r"job\.sh:3: the directive is not UTF-8"),
    ],
)
def test_a_broken_line_is_refused_with_file_and_line(line: bytes, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        read_directives(b"#!/bin/sh\n\n" + line + b"\n", "job.sh")


def test_lines_of_other_systems_are_warned_of_once_and_slurms_old_word_is_read() -> None:
    found = read_directives(b"#!/bin/sh\n#PBS -l x\n#PBS -q y\n#BSUB -n 2\n#SLURM -n 3\n", "job.sh")
    assert [line.words for line in found.lines] == [("-n", "3")]
    assert found.warnings == (
        "job.sh:2: #PBS lines are not read; write #SBATCH or #GSUB",
        "job.sh:4: #BSUB lines are not read; write #SBATCH or #GSUB",
        "job.sh:5: #SLURM is read as #SBATCH; write #SBATCH or #GSUB",
    )
