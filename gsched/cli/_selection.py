"""How commands choose jobs by state and by user: `PD,RUNNING`, `alice,1000`."""

from __future__ import annotations

import os
from typing import Final

from gsched.errors import BadRequest
from gsched.values.states import JobState

_BY_WORD: Final = {word: state for state in JobState for word in (state.value, state.compact)}


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
