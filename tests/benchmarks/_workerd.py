"""The real runtime as a peer, if it is there: ``npm install --prefix .workerd workerd@1.20261117.1``."""

from __future__ import annotations

import http.client
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PROGRAM: Final = Path(__file__).parents[2] / ".workerd" / "node_modules" / ".bin" / "workerd"
ABSENT: Final = (
    "The real runtime is not installed, so nothing is measured beside it "
    "(npm install --prefix .workerd workerd@1.20261117.1)."
)
STARTS_S: Final = 20

_CONFIG: Final = """using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .w), (name = "disk", disk = (path = "{disk}", writable = true))],
  sockets = [(name = "http", address = "127.0.0.1:{port}", http = (), service = "main")]);
const w :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "worker.js")],
  compatibilityDate = "2026-11-01",
  durableObjectNamespaces = [(className = "Peer", uniqueKey = "peer", enableSql = true)],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [(name = "PEER", durableObjectNamespace = "Peer")]);
"""


class Client:
    """One connection to a running worker."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def get(self, path: str) -> str:
        """What the worker answers."""
        self._connection.request("GET", path)
        response = self._connection.getresponse()
        text = response.read().decode()
        assert response.status == 200, text
        return text

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


@contextmanager
def workerd(worker: str) -> Iterator[Client]:
    """A client of the real runtime that runs ``worker``, with its objects on a disk."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="durable_mini-") as made:
        folder = Path(made)
        (folder / "disk").mkdir()
        (folder / "worker.js").write_text(worker, encoding="utf-8")
        (folder / "config.capnp").write_text(_CONFIG.format(disk=folder / "disk", port=port), encoding="utf-8")
        process = subprocess.Popen([PROGRAM, "serve", folder / "config.capnp"], stderr=subprocess.DEVNULL)
        client = Client(port)
        try:
            _wait_for(client, process)
            yield client
        finally:
            client.close()
            process.kill()
            process.wait()


def _wait_for(client: Client, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + STARTS_S
    while True:
        try:
            client.get("/ready")
            return
        except OSError:
            client.close()
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
