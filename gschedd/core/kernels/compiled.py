"""The one decorator that holds the compile options: no fastmath, no parallel loops; every machine decides alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile for integers and flat arrays; other threads go on while it runs.

    Arrays are not counted as they are passed: no kernel makes one, and counting took most of the time of small ones.
    """
    compiled = cast(Callable[..., Callable[[Function], Function]], njit)(nogil=True, cache=True, _nrt=False)
    return compiled(function)
