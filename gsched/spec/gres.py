"""GPUs as users ask for them: `gpu:h100:2` a node (--gres), `8` or `h100:8` (--gpus, --gpus-per-node)."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from gsched.errors import BadRequest
from gsched.spec.counts import parse_gpu_count

GRES_FORMS: Final = "gpu, gpu:COUNT, gpu:MODEL, gpu:MODEL:COUNT, none"
GPU_FORMS: Final = "COUNT, MODEL:COUNT"

_MODEL: Final = r"[A-Za-z0-9][A-Za-z0-9_. -]*"
_LATER: Final = ("shard", "mps")


class GpuAsk(Struct, frozen=True):
    """So many GPUs, of a model whose name has `model` in it ("" = any)."""

    count: int
    model: str = ""


def parse_gpus(text: str) -> GpuAsk:
    """Read the value of --gpus or --gpus-per-node. Raises BadRequest."""
    if "," in text:
        raise BadRequest(f"several models of GPU in one job are not supported yet: {text!r} (forms: {GPU_FORMS})")
    model, colon, count = text.rpartition(":")
    if colon and not _is_model(model):
        raise BadRequest(f"not a number of GPUs: {text!r} (forms: {GPU_FORMS})")
    return GpuAsk(parse_gpu_count(count), model)


def parse_gres(text: str) -> GpuAsk | None:
    """Read the value of --gres; None for `none`. Raises BadRequest: GPUs are the only kind there is."""
    if text == "none":
        return None
    if "," in text:
        raise BadRequest(f"several kinds of --gres in one job are not supported yet: {text!r} (forms: {GRES_FORMS})")
    kind, *rest = text.removeprefix("gres/").split(":")
    if kind in _LATER:
        raise BadRequest(f"--gres={kind} is not supported yet; ask for whole GPUs (forms: {GRES_FORMS})")
    if kind != "gpu":
        raise BadRequest(f"no such kind of --gres: {kind!r}; gpu is the only one (forms: {GRES_FORMS})")
    match rest:
        case []:
            return GpuAsk(1)
        case [one] if _is_model(one):
            return GpuAsk(1, one)
        case [one]:
            return GpuAsk(parse_gpu_count(one))
        case [model, count] if _is_model(model):
            return GpuAsk(parse_gpu_count(count), model)
    raise BadRequest(f"not a --gres: {text!r} (forms: {GRES_FORMS})")


def _is_model(text: str) -> bool:
    """A name and not some way to write a number: `nan` and `1e3` are slips, not models."""
    if not re.fullmatch(_MODEL, text):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False
