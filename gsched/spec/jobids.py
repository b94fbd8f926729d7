"""Job ids as users write them: `123`, `123,124`; steps `123.0`, `123.batch`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from gsched.errors import BadRequest
from gsched.values.ids import JobId

_ID: Final = r"[0-9]{1,18}"
_ARRAY: Final = r"[0-9]+_.*"
_STEP: Final = r"[0-9]+\.([0-9]+|batch|extern)"


def parse_job_id(text: str) -> JobId:
    """Read one id. Raises BadRequest, also for what is a step's or an array element's id."""
    if re.fullmatch(_ID, text) and int(text) > 0:
        return JobId(int(text))
    if re.fullmatch(_ARRAY, text):
        raise BadRequest(f"job arrays are not supported yet: {text!r}")
    if re.fullmatch(_STEP, text):
        raise BadRequest(f"{text!r} is a step; a job is wanted here, as {text.split('.')[0]}")
    raise BadRequest(f"not a job id: {text[:40]!r} (a whole number, as 123)")


def parse_job_ids(texts: Iterable[str]) -> tuple[JobId, ...]:
    """Read ids given apart or with commas, each once, in order. Raises BadRequest."""
    found = (parse_job_id(one.strip(" ")) for text in texts for one in text.split(","))
    return tuple(dict.fromkeys(found))
