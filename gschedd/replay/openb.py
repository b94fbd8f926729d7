"""Reads node and pod lists in the form of Alibaba's openb trace (cluster-trace-gpu-v2023): CSV, or CSV packed by gzip.

Nodes: sn, cpu_milli, memory_mib, gpu, model. Pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli, and gpu_spec where
there is one (models joined by `|`). Other columns are left aside.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NoReturn

from msgspec import Struct

from gsched.cli._common import did_you_mean
from gsched.errors import BadRequest
from gschedd.core.kernels.shares import WHOLE
from gschedd.core.mix import Shape

MOST_GPUS: Final = 62  # of a node: a placement is a mask
NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


class TraceNode(Struct, frozen=True):
    """A node: cores in thousandths."""

    name: str
    cores: int
    memory_mib: int
    gpus: int
    model: str


class TracePod(Struct, frozen=True):
    name: str
    shape: Shape


def read_nodes(path: Path) -> tuple[TraceNode, ...]:
    """The nodes in file order. Raises BadRequest, with file and line, on what is not such a list."""
    nodes = []
    for line, row in _rows(path, NODE_COLUMNS):
        gpus = _count(path, line, row, "gpu", MOST_GPUS)
        model = row["model"].strip()
        if gpus and not model:
            _wrong(path, line, f"{gpus} GPUs and no model")
        cores, memory = _count(path, line, row, "cpu_milli"), _count(path, line, row, "memory_mib")
        nodes.append(TraceNode(row["sn"], cores, memory, gpus, model if gpus else ""))
    if not any(node.gpus for node in nodes):
        raise BadRequest(f"{path}: no node with a GPU in it")
    return tuple(nodes)


def read_pods(path: Path, *, memory: bool = True) -> tuple[TracePod, ...]:
    """The pods in file order; without `memory` none asks for any.

    Raises BadRequest, with file and line, on what is not such a list.
    """
    pods = []
    for line, row in _rows(path, POD_COLUMNS):
        gpus = _count(path, line, row, "num_gpu", MOST_GPUS)
        milli = _count(path, line, row, "gpu_milli", WHOLE)
        if gpus > 1 and milli != WHOLE:
            _wrong(path, line, f"gpu_milli is {milli} of each of {gpus} GPUs: several GPUs are asked for whole (1000)")
        if (gpus == 0) != (milli == 0):
            _wrong(path, line, f"num_gpu is {gpus} and gpu_milli {milli}: both or neither may be 0")
        models = tuple(sorted({model.strip() for model in (row.get("gpu_spec") or "").split("|")} - {""}))
        cores, mib = _count(path, line, row, "cpu_milli"), _count(path, line, row, "memory_mib")
        pods.append(TracePod(row["name"], Shape(cores, mib if memory else 0, gpus, milli, models if gpus else ())))
    if not any(pod.shape.gpus for pod in pods):
        raise BadRequest(f"{path}: no pod that asks for a GPU in it")
    return tuple(pods)


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """(line number, row) of each row."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode("utf-8-sig")
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror or 'not whole gzip'}") from None
    except (EOFError, zlib.error, UnicodeDecodeError):
        raise BadRequest(f"{path} is neither CSV text nor whole gzip of it") from None
    reader = csv.DictReader(io.StringIO(text, newline=""))
    found = reader.fieldnames or []
    for column in columns:
        if column not in found:
            shown = ", ".join(found) or "nothing"
            raise BadRequest(f"{path}: no column {column!r}{did_you_mean(column, found)}; its first line has: {shown}")
    for row in reader:
        if None in row or any(row[column] is None for column in columns):
            _wrong(path, reader.line_num, f"has not {len(found)} fields as the first line has")
        yield reader.line_num, row


def _count(path: Path, line: int, row: Mapping[str, str], column: str, most: int = 1 << 40) -> int:
    """A whole number of at least 0; the trace writes some as 1000.0."""
    text = row[column].strip()
    digits = text.removesuffix(".0")
    if not (digits.isascii() and digits.isdigit()):
        _wrong(path, line, f"{column} is {text!r}: expected a whole number from 0 on")
    if int(digits) > most:
        _wrong(path, line, f"{column} is {text}: at most {most}")
    return int(digits)


def _wrong(path: Path, line: int, what: str) -> NoReturn:
    raise BadRequest(f"{path}, line {line}: {what}")
