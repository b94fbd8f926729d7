"""Which variables of the submitter go with the job: --export=ALL, NONE, or a list as `ALL,A=1,B`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from gsched.errors import BadRequest, TooLarge

ENVIRONMENT_MAX_BYTES: Final = 1024 * 1024

# What gsched sets in a job: the submitter's own values are of another job, or of none.
OURS_PREFIXES: Final = ("SLURM_", "SLURMD_", "GSCHED_")
OURS: Final = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES")

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"


class Exported(Struct, frozen=True):
    environment: dict[str, str]
    warnings: tuple[str, ...] = ()


def export(rule: str, environment: Mapping[str, str], limit: int = ENVIRONMENT_MAX_BYTES) -> Exported:
    """Choose from the submitter's environment by the value of --export. Raises BadRequest, TooLarge."""
    taken: dict[str, str] = {}
    warnings: list[str] = []
    words = list(_split(rule))
    if words == ["NONE"]:
        return Exported({})
    for word in words:
        name, given, value = word.partition("=")
        if word == "ALL":
            taken.update({name: value for name, value in environment.items() if not _is_ours(name)})
        elif word == "NIL":
            raise BadRequest("--export=NIL is not supported yet; NONE is near it")
        elif word == "NONE":
            raise BadRequest(f"--export={word} cannot be joined with other words: {rule!r}")
        elif not re.fullmatch(_NAME, name):
            raise BadRequest(
                f"not a value of --export: {rule!r}: {name!r} is no variable's name (ALL, NONE, A, A=VALUE)"
            )
        elif _is_ours(name):
            raise BadRequest(f"--export: {name} is set by gsched where the job runs; it cannot be given")
        elif given:
            taken[name] = value
        elif name in environment:
            taken[name] = environment[name]
        else:
            warnings.append(f"--export: {name} is not set here; the job will not have it")
    return Exported(_bounded(taken, limit), tuple(warnings))


def _split(rule: str) -> Iterator[str]:
    """Words between commas; quotes keep a comma inside a value."""
    word, quote = "", ""
    for char in rule:
        if quote:
            quote, word = ("", word) if char == quote else (quote, word + char)
        elif char in "'\"" and "=" in word:
            quote = char
        elif char == ",":
            yield word
            word = ""
        else:
            word += char
    if quote:
        raise BadRequest(f"--export: a quote ({quote}) is not closed: {rule!r}")
    yield word


def _bounded(environment: dict[str, str], limit: int) -> dict[str, str]:
    size = sum(len(_bytes(name)) + len(_bytes(value)) + 2 for name, value in environment.items())
    if size > limit:
        longest = max(environment, key=lambda name: len(environment[name]))
        raise TooLarge(
            f"the environment has {size} bytes, the most is {limit} (the longest variable is {longest}); "
            "pass on what the job needs: --export=NAME,NAME or --export=NONE"
        )
    return environment


def _is_ours(name: str) -> bool:
    return name in OURS or name.startswith(OURS_PREFIXES)


def _bytes(text: str) -> bytes:
    """As the system keeps it: values need not be UTF-8, and come through as they are."""
    return text.encode("utf-8", "surrogateescape")
