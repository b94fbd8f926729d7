"""Moments as Slurm's commands read them, to instants: `2026-11-30T14:00`, `14:00`, `today`, `now-2hours`.

Without a date a time of day is today's. Everything is local time.
"""

from __future__ import annotations

import re
import time
from typing import Final

from gsched.errors import BadRequest
from gsched.values.ids import Instant

FORMS: Final = "YYYY-MM-DD[THH:MM[:SS]], MM/DD[/YY][-HH:MM[:SS]], HH:MM[:SS], today, yesterday, now[-N[hours|days|...]]"

_DATE: Final = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})|(\d{1,2})/(\d{1,2})(?:/(\d{4}|\d{2}))?", re.ASCII)
_TIME: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\s*(am|pm)?", re.ASCII | re.IGNORECASE)
_NOW: Final = re.compile(r"now(?:\s*([+-])\s*(\d{1,9})\s*([a-z]*))?", re.ASCII | re.IGNORECASE)
_UNITS_S: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_DAYS: Final = {"yesterday": -1, "today": 0, "midnight": 0, "tomorrow": 1}
_HOURS: Final = {"noon": 12, "elevenses": 11, "fika": 15, "teatime": 16}


def parse_moment(text: str, now: Instant) -> Instant:
    """Read a moment. `now` is what relative forms start from. Raises BadRequest, which lists the forms."""
    word = text.strip()
    if match := _NOW.fullmatch(word):
        sign, count, unit = match.groups()
        return Instant(now + int(f"{sign or '+'}{count or 0}") * 1000 * _unit_s(unit or "seconds", text))
    today = time.localtime(now // 1000)
    if word.lower() in _DAYS:
        return _instant(today.tm_year, today.tm_mon, today.tm_mday + _DAYS[word.lower()], (0, 0, 0))
    if word.lower() in _HOURS:
        return _instant(today.tm_year, today.tm_mon, today.tm_mday, (_HOURS[word.lower()], 0, 0))
    if clock := _TIME.fullmatch(word):
        return _instant(today.tm_year, today.tm_mon, today.tm_mday, _clock(clock, text))
    date = _DATE.match(word)
    if date is None:
        raise _wrong(text)
    rest = word[date.end() :]
    clock = _TIME.fullmatch(rest[1:]) if rest[:1] in ("T", "t", "-", " ") else None
    if rest and clock is None:
        raise _wrong(text)
    year, month, day = _calendar(date, today.tm_year, text)
    return _instant(year, month, day, _clock(clock, text) if clock else (0, 0, 0))


def start_of_today(now: Instant) -> Instant:
    return parse_moment("today", now)


def _unit_s(word: str, text: str) -> int:
    name = word.lower()
    for unit, seconds in _UNITS_S.items():
        if len(name) >= 3 and (unit + "s").startswith(name):
            return seconds
    raise _wrong(text)


def _calendar(date: re.Match[str], this_year: int, text: str) -> tuple[int, int, int]:
    year, month, day, us_month, us_day, us_year = date.groups()
    if year is None:
        month, day, year = us_month, us_day, us_year or str(this_year)
    full = int(year) + 2000 if len(year) == 2 else int(year)
    leap = full % 4 == 0 and (full % 100 != 0 or full % 400 == 0)
    days = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if full < 1970 or not 1 <= int(month) <= 12 or not 1 <= int(day) <= days[int(month) - 1]:
        raise BadRequest(f"no such day: {text!r}")
    return full, int(month), int(day)


def _clock(match: re.Match[str], text: str) -> tuple[int, int, int]:
    hours, minutes, seconds = int(match[1]), int(match[2]), int(match[3] or 0)
    if match[4]:
        if not 1 <= hours <= 12:
            raise BadRequest(f"no such time of day: {text!r}")
        hours = hours % 12 + (12 if match[4].lower() == "pm" else 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise BadRequest(f"no such time of day: {text!r}")
    return hours, minutes, seconds


def _instant(year: int, month: int, day: int, clock: tuple[int, int, int]) -> Instant:
    # mktime carries a day past the month's end over; -1: whether it is summer time follows from the zone
    return Instant(int(time.mktime((year, month, day, *clock, 0, 0, -1))) * 1000)


def _wrong(text: str) -> BadRequest:
    return BadRequest(f"not a moment: {text[:40]!r}; expected {FORMS}")
