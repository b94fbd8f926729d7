"""How commands name jobs, states and users: `12,14`, `PD,RUNNING`, `alice,1000`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from gsched.errors import BadRequest
from gsched.values.ids import JobId
from gsched.values.states import JobState

_BY_WORD: Final = {word: state for state in JobState for word in (state.value, state.compact)}
_ID_MAX: Final = 2**53  # what any reader of our JSON can hold


def job_ids(words: Iterable[str]) -> tuple[JobId, ...]:
    """Read job ids, one a word or with commas between; each once, in order. Raises BadRequest."""
    ids: dict[JobId, None] = {}
    for word in words:
        for part in word.split(","):
            ids[_job_id(part.strip())] = None
    return tuple(ids)


def _job_id(text: str) -> JobId:
    if text.isascii() and text.isdigit() and 0 < int(text[:20]) <= _ID_MAX:
        return JobId(int(text))
    stem = text.split(".")[0].split("_")[0]
    if stem != text and stem.isascii() and stem.isdigit():
        kind = "steps" if "." in text else "array elements"
        raise BadRequest(f"job id {text!r}: {kind} cannot be named here; say the job, {stem}")
    raise BadRequest(f"not a job id: {text!r}; expected a number as gsub printed it, or several with commas between")


def job_states(text: str) -> tuple[tuple[JobState, ...], bool]:
    """Read `-t`: states by name or two letters, any case; or `all`, for which the second value is true."""
    words = [word.strip().upper() for word in text.split(",")]
    if "ALL" in words:
        return (), True
    for word in words:
        if word not in _BY_WORD:
            known = ", ".join(f"{state.value} ({state.compact})" for state in JobState)
            raise BadRequest(f"not a job state: {word!r}; known are {known}, all")
    return tuple(dict.fromkeys(_BY_WORD[word] for word in words)), False


def user_names(text: str) -> tuple[str, ...]:
    """Read `-u`: names, or uids for which a name is looked up. Raises BadRequest for an empty one."""
    names: dict[str, None] = {}
    for word in text.split(","):
        if not word.strip():
            raise BadRequest(f"not a list of users: {text!r}; expected names or uids with commas between")
        names[_name_of(int(word)) if word.strip().isdecimal() else word.strip()] = None
    return tuple(names)


def my_name() -> str:
    """The name of whoever runs this command."""
    return _name_of(os.getuid())


def _name_of(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)  # as the controller names a user that the system does not know
