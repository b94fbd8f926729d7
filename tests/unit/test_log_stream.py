"""A log that cannot be written disturbs nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import structlog

from gsched.log_stream import log_stream


def test_a_line_is_written_whole_and_at_once(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        logger = structlog.WriteLoggerFactory(log_stream(file.fileno()))()
        logger.msg("über \udcff")
        assert (tmp_path / "log").read_bytes() == "über \\udcff\n".encode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which no write succeeds on")
def test_a_full_disk_is_not_an_error() -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    try:
        structlog.WriteLoggerFactory(log_stream(fd))().msg("lost")
    finally:
        os.close(fd)


def test_a_reader_that_went_away_is_not_an_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        structlog.WriteLoggerFactory(log_stream(writer))().msg("lost")
    finally:
        os.close(writer)
