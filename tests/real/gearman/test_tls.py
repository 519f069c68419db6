"""Encrypted, and known by their certificates: the libraries of Debian and PyPI that can be."""

from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme

from tests.real.gearman.kinds import differs
from tests.real.gearman.kit import Peers
from tests.support.server import Server
from tests.support.tls import secured


@differs("Debian builds it without")
@pytest.mark.parametrize(("client_kind", "worker_kind"), [("gear", "perl"), ("perl", "gear")])
def test_peers_with_certificates_work_together(
    tmp_path: Path, ca: trustme.CA, stack: ExitStack, client_kind: str, worker_kind: str
) -> None:
    files = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    args = [*secured(tmp_path, ca).flags, "--tls-client-ca", files["ca"]]
    server = Server(tmp_path / "data", speaks=("gearman",), extra_args=args)
    peers = Peers(tmp_path, stack, server=server)
    peers.worker(worker_kind, {"hidden": "reverse"}, tls=files)
    client = peers.library(client_kind, tls=files)
    for workload in (b"abc", b"x" * 200_000):
        assert client.do("hidden", workload).result == workload[::-1]
