"""The decorators that hold the compile options: no fastmath, no parallel loops; every machine decides alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])

# Arrays are not counted as they are passed: no kernel makes one, and counting took most of the time of small ones.
_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "cache": True, "_nrt": False}


def kernel(function: Function) -> Function:
    """Compile for integers and flat arrays; other threads go on while it runs."""
    return cast(Function, njit(**_OPTIONS)(function))


def inlined(function: Function) -> Function:
    """A kernel whose code is put where it is called: for what is small, or called in one place.

    Arrays are passed by value, shapes and strides and all: a call with twenty of them costs a hundred nanoseconds.
    """
    return cast(Function, njit(forceinline=True, **_OPTIONS)(function))


def making(function: Function) -> Function:
    """A kernel that makes an array or returns one: its arrays are counted."""
    return cast(Function, njit(**{**_OPTIONS, "_nrt": True})(function))
