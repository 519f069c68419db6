"""A server that speaks TLS, and clients that trust it."""

import ssl
from pathlib import Path
from typing import NamedTuple

import trustme

from tests.support.server import HOST


class Secured(NamedTuple):
    """The files of a certificate for this machine, and what its clients trust."""

    certificate: Path
    key: Path
    client: ssl.SSLContext

    @property
    def flags(self) -> tuple[str, ...]:
        """What a server is started with."""
        return ("--tls-cert", str(self.certificate), "--tls-key", str(self.key))


def secured(folder: Path, authority: trustme.CA | None = None) -> Secured:
    """A new certificate of an authority, a new one if none is given, in `ca`, `cert` and `key.pem` of this folder."""
    authority = authority or trustme.CA()
    issued = authority.issue_cert(HOST, "localhost")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(str(key))
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return Secured(certificate, key, client)
