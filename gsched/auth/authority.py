"""The cluster's own certificate authority: one key that proves the controller to the agents and each agent to it.

A certificate carries its role and name as a URI, `gsched:controller:NAME` or `gsched:node:NAME`: who has a node's key
can speak for that node and for nothing else. Keys are P-256, files of keys are 0600.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gsched.auth.roles import role_in, role_uri
from gsched.errors import BadConfig, BadRequest

Role = Literal["controller", "node"]

_AUTHORITY_DAYS: Final = 3650
_CERTIFICATE_DAYS: Final = 825
_SKEW: Final = datetime.timedelta(hours=1)  # a node's clock may be behind


def make_authority(directory: Path, cluster: str) -> None:
    """Make `ca.key` and `ca.pem` in `directory`, unless they are there already."""
    if (directory / "ca.pem").exists() and (directory / "ca.key").exists():
        return
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"gsched authority of {cluster[:40]}")])
    certificate = (
        _builder(name, name, key.public_key(), _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(directory / "ca.key", _key_pem(key), 0o600)
    _write(directory / "ca.pem", certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def issue(authority: Path, role: Role, name: str, out: Path, hosts: Sequence[str] = ()) -> None:
    """Make `ROLE.key`, `ROLE.pem` and a copy of `ca.pem` in `out`, signed by the authority in `authority`.

    `hosts` (names or addresses) are for people and other tools; gsched itself checks the role. Raises BadConfig if
    the authority is not there, BadRequest for a name that cannot stand in a certificate.
    """
    if not name or len(name) > 255 or not name.isascii() or any(c in name for c in ":/ \n\0"):
        raise BadRequest(f"{role} name {name!r}: expected 1 to 255 ASCII characters without spaces, `:` and `/`")
    ca_key, ca = _load(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, name[:64]),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, f"gsched {role}"),
        ]
    )
    names = [x509.UniformResourceIdentifier(role_uri(role, name)), *(_general_name(host) for host in hosts)]
    certificate = (
        _builder(subject, ca.subject, key.public_key(), _CERTIFICATE_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        # A node is the client of the controller and the server of its own streams.
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(out / f"{role}.key", _key_pem(key), 0o600)
    _write(out / f"{role}.pem", certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    if out != authority:
        _write(out / "ca.pem", ca.public_bytes(serialization.Encoding.PEM), 0o644)


def role_of(certificate: bytes) -> tuple[str, str]:
    """The role and name in a certificate (PEM or DER); ("", "") if it names none. Its signature is not checked here."""
    pem = certificate.lstrip().startswith(b"-----BEGIN")
    parsed = x509.load_pem_x509_certificate(certificate) if pem else x509.load_der_x509_certificate(certificate)
    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return "", ""
    return role_in(names.get_values_for_type(x509.UniformResourceIdentifier))


def _load(authority: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    try:
        key = serialization.load_pem_private_key((authority / "ca.key").read_bytes(), None)
        certificate = x509.load_pem_x509_certificate((authority / "ca.pem").read_bytes())
    except OSError as error:
        raise BadConfig(f"no certificate authority in {authority}: {error.strerror} ({error.filename})") from None
    except ValueError as error:
        raise BadConfig(f"the certificate authority in {authority} cannot be read: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadConfig(f"{authority / 'ca.key'}: expected an elliptic curve key")
    return key, certificate


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes, mode: int) -> None:
    """Whole or not at all, and never readable by others in between."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
