"""A certificate for 127.0.0.1 that is good for nothing but tests, and clients that trust it."""

from __future__ import annotations

import ssl
from pathlib import Path

CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUEXduv3ZolijHAVnNzbw/omf+z3owCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNjE1MTMyMloYDzIxMjYxMDIz
MTUxMzIyWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQ4kAy060kd2U4hbTg/K+2AkGXWy5zt8KX/yVqA4pD0fPuGQqDu0KnJ
hXdDpiJaFB2iLoElNyrBD3mRUWFLrouio28wbTAdBgNVHQ4EFgQUTtt9N4gYPazX
hJlvCy6ORgLd1fgwHwYDVR0jBBgwFoAUTtt9N4gYPazXhJlvCy6ORgLd1fgwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARhwR/AAABgglsb2NhbGhvc3QwCgYIKoZI
zj0EAwIDSAAwRQIgF06pno0dexcHEYbZWwDE8BgfV7s7LPdfB1o0yNvXzMYCIQDZ
qTiWAkNanSNTpkmNDtKgHUFQFA4gFF92vFUFn9IjtQ==
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg0j8CECHJJEDMr80b
w/lfHAmnVIdCgATBjgj9rmzIF5KhRANCAAQ4kAy060kd2U4hbTg/K+2AkGXWy5zt
8KX/yVqA4pD0fPuGQqDu0KnJhXdDpiJaFB2iLoElNyrBD3mRUWFLroui
-----END PRIVATE KEY-----
"""


def flags(folder: Path) -> tuple[str, ...]:
    """The flags with which a server speaks TLS; its files are written into this folder."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    certificate.write_text(CERTIFICATE)
    key.write_text(KEY)
    return ("--tls-cert", str(certificate), "--tls-key", str(key))


def client() -> ssl.SSLContext:
    """What a client of such a server is told to trust."""
    return ssl.create_default_context(cadata=CERTIFICATE)
