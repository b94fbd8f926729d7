"""Whatever bytes a script holds, it is read or refused; what is quoted comes back as one word."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from gsched.cli._submission import Here, read_submission
from gsched.errors import BadRequest, GschedError
from gsched.spec.scripts import check_script, read_directives, split_words

LINES = st.one_of(
    st.binary(max_size=30),
    st.builds(
        lambda mark, rest: mark + rest, st.sampled_from([b"#SBATCH ", b"#GSUB ", b"#SBATCH"]), st.binary(max_size=30)
    ),
    st.sampled_from(
        [b"#SBATCH -N 2-4", b"#GSUB --time=1-0 -J 'a b'", b"", b"# x", b"#SBATCH --array=1", b"#SBATCH -G nan"]
    ),
)
SCRIPTS = st.builds(lambda lines: b"#!/bin/sh\n" + b"\n".join(lines), st.lists(LINES, max_size=6))


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), max_size=8), max_size=5))
def test_escaped_words_come_back(words: list[str]) -> None:
    line = " ".join('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in words)
    assert split_words(line, "job.sh:1") == words


@given(SCRIPTS)
def test_any_script_is_read_or_refused_with_its_line(script: bytes) -> None:
    why = "job.sh:"
    try:
        check_script(script, "job.sh")
        read_directives(script, "job.sh")
    except BadRequest as error:
        why = error.text
    assert why.startswith("job.sh:")


@given(SCRIPTS, st.lists(st.text("-=NGJtcx 0123:[],%", max_size=8), max_size=4))
def test_any_submission_is_made_or_refused(script: bytes, argv: list[str]) -> None:
    with contextlib.suppress(GschedError):
        made = read_submission(argv, {}, lambda _: script, Here(cwd="/home/ann"))
        assert made.request.spec.name
