"""The role that a certificate of the cluster names, as a URI: `gsched:node:n1`, `gsched:controller:NAME`."""

from __future__ import annotations

from collections.abc import Sequence


def role_uri(role: str, name: str) -> str:
    return f"gsched:{role}:{name}"


def role_in(uris: Sequence[str]) -> tuple[str, str]:
    """The role and name among the URIs of a certificate. None or more than one is no role at all: ("", "")."""
    found = [uri.split(":", 2) for uri in uris if uri.startswith("gsched:")]
    if len(found) != 1 or len(found[0]) != 3:
        return "", ""
    return found[0][1], found[0][2]
