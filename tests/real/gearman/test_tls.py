"""Encrypted, and known by their certificates: the libraries of Debian and PyPI that can be."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme

from tests.real.gearman.kinds import differs
from tests.real.gearman.kit import Stage
from tests.real.gearman.servers import TlsFranca
from tests.support.server import HOST


@differs("Debian builds it without")
@pytest.mark.parametrize(("client_kind", "worker_kind"), [("gear", "perl"), ("perl", "gear")])
def test_peers_with_certificates_work_together(
    tmp_path: Path, ca: trustme.CA, find_node: Callable[[], str], client_kind: str, worker_kind: str
) -> None:
    files = _certified(tmp_path, ca)
    server = TlsFranca(
        tmp_path / "data", "--tls-cert", files["cert"], "--tls-key", files["key"],
        "--tls-client-ca", files["ca"],
    )  # fmt: skip
    with ExitStack() as stack:
        stage = Stage(tmp_path, stack, find_node, server=server)
        stage.worker(worker_kind, {"hidden": "reverse"}, tls=files)
        client = stage.library(client_kind, tls=files)
        for workload in (b"abc", b"x" * 200_000):
            assert client.do("hidden", workload).result == workload[::-1]


def _certified(folder: Path, ca: trustme.CA) -> dict[str, str]:
    """An authority, and a certificate of it that everybody here shows."""
    paths = {name: folder / f"{name}.pem" for name in ("ca", "cert", "key")}
    issued = ca.issue_cert(HOST, "localhost")
    ca.cert_pem.write_to_path(paths["ca"])
    issued.cert_chain_pems[0].write_to_path(paths["cert"])
    issued.private_key_pem.write_to_path(paths["key"])
    return {name: str(path) for name, path in paths.items()}
