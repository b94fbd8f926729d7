"""Constraints on nodes' features: `a100`, `ib&nvme` (all of them), `a100|h100` (one of them)."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from msgspec import Struct

from gsched.errors import BadRequest

_FEATURE: Final = r"[A-Za-z0-9_][A-Za-z0-9_.:-]*"
_LATER: Final = {"[": "brackets", "(": "parentheses", "*": "counts", "!": "negation"}


class Constraint(Struct, frozen=True):
    """What a node's features must hold. No features: every node will do."""

    features: tuple[str, ...] = ()
    any_of: bool = False  # one of them is enough; else all are needed

    def met_by(self, features: Collection[str]) -> bool:
        if not self.features:
            return True
        has = (feature in features for feature in self.features)
        return any(has) if self.any_of else all(has)


def parse_constraint(text: str) -> Constraint:
    """Read a constraint; "" is one that every node meets. Raises BadRequest."""
    if not text:
        return Constraint()
    for sign, name in _LATER.items():
        if sign in text:
            raise BadRequest(f"{name} in a constraint are not supported yet: {text!r} (forms: A, A&B, A|B)")
    if "&" in text and "|" in text:
        raise BadRequest(f"& and | in one constraint are not supported yet: {text!r} (forms: A, A&B, A|B)")
    any_of = "|" in text
    features = tuple(feature.strip(" ") for feature in text.split("|" if any_of else "&"))
    for feature in features:
        if not is_feature(feature):
            raise BadRequest(f"not a constraint: {text!r}: {feature!r} is not a feature's name (forms: A, A&B, A|B)")
    return Constraint(features, any_of)


def is_feature(text: str) -> bool:
    """Whether it can be the name of a feature."""
    return re.fullmatch(_FEATURE, text) is not None
