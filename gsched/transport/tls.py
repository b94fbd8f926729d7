"""TLS 1.3 with the cluster's own certificates: contexts for each side, and whose certificate the other side showed.

There is no plain-text mode. The role in the certificate counts, not the host's name: a node's certificate opens no
door as a controller's, nor the other way round.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from gsched.auth.roles import role_in
from gsched.errors import BadConfig, NotPermitted


def server_context(directory: Path, role: str, *, verify_client: bool = True) -> ssl.SSLContext:
    """For a server with `ROLE.pem`, `ROLE.key` and `ca.pem` in `directory`.

    verify_client: refuse who has no certificate of the cluster's. The stream server of an agent is the exception: its
    clients are users, and show a ticket. Raises BadConfig for files that are missing, wrong, or readable by others.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    return _filled(context, directory, role, verify=verify_client)


def client_context(directory: Path, role: str) -> ssl.SSLContext:
    """For a client that shows its own certificate. Check `require_role` once connected. Raises BadConfig."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the role in the certificate is checked instead
    return _filled(context, directory, role, verify=True)


def ticket_context(ca_pem: bytes) -> ssl.SSLContext:
    """For a user's client, which has no certificate: the server is proved. Check `require_role` once connected."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=ca_pem.decode())
    return context


def peer_role(tls: ssl.SSLObject | ssl.SSLSocket | Any) -> tuple[str, str]:
    """Role and name in the verified certificate of the other side; ("", "") if it showed none.

    `tls`: an SSLSocket, or a transport's `get_extra_info("ssl_object")`.
    """
    shown: Any = tls.getpeercert() or {}  # nested tuples that typeshed describes too loosely
    return role_in([value for kind, value in shown.get("subjectAltName", ()) if kind == "URI"])


def require_role(tls: ssl.SSLObject | ssl.SSLSocket | Any, role: str, name: str = "") -> str:
    """The name in the other side's certificate. Raises NotPermitted if its role, or its name, is another."""
    shown_role, shown_name = peer_role(tls)
    if shown_role != role or (name and shown_name != name):
        found = f"{shown_role} {shown_name}" if shown_role else "nobody of this cluster"
        raise NotPermitted(f"expected the certificate of {role} {name or '(any)'}: the other side's is of {found}")
    return shown_name


def _filled(context: ssl.SSLContext, directory: Path, role: str, *, verify: bool) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    key, certificate, ca = directory / f"{role}.key", directory / f"{role}.pem", directory / "ca.pem"
    for path in (key, certificate, ca):
        if not path.is_file():
            raise BadConfig(f"{path}: there is no such file; expected a certificate made by the cluster's authority")
    if key.stat().st_mode & 0o077:
        raise BadConfig(f"{key} can be read by others (mode {key.stat().st_mode & 0o777:o}): expected 600")
    try:
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(cafile=ca)
    except (ssl.SSLError, OSError) as error:
        raise BadConfig(f"certificates in {directory} cannot be used: {error}") from None
    return context
