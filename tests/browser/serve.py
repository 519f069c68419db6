"""The dashboard without a server: its files, and a made-up server inside of the page.

python -m tests.browser.serve [PORT] [PREFIX]

The addresses are those of the real one. Every answer carries the same policy.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

STATIC = Path(__file__).parents[2] / "src" / "franca" / "web" / "static"
HERE = Path(__file__).parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGES = {"": "index.html", "login": "login.html", "try": "try.html"}
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
PASSWORD = "sesame"
_INJECTED = b'<script type="module" src="fake.js"></script>\n<script type="module"'


class Handler(BaseHTTPRequestHandler):
    """Files, `openapi.json`, and signing in."""

    prefix = ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if not path.startswith(f"{self.prefix}/"):
            return self._send(404, ".html", b"not here")
        name = path.removeprefix(f"{self.prefix}/")
        name = PAGES.get(name, name)
        if name == "openapi.json":
            return self._send(200, ".json", json.dumps(OPENAPI).encode())
        for folder in (STATIC, HERE):
            file = (folder / name).resolve()
            if file.is_file() and file.is_relative_to(folder) and file.suffix in MEDIA:
                content = file.read_bytes()
                if file.suffix == ".html":
                    content = content.replace(b'<script type="module"', _INJECTED, 1)
                return self._send(200, file.suffix, content)
        return self._send(404, ".html", b"not here")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        if urlsplit(self.path).path != f"{self.prefix}/login":
            return self._send(404, ".html", b"not here")
        if body == f"password={PASSWORD}".encode():
            self.send_response(303)
            self.send_header("location", f"{self.prefix}/")
            self.send_header("content-length", "0")
            self.end_headers()
            return None
        return self._send(401, ".html", (STATIC / "login.html").read_bytes())

    def _send(self, status: int, suffix: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", MEDIA[suffix])
        self.send_header("content-length", str(len(content)))
        self.send_header("content-security-policy", POLICY)
        self.send_header("cache-control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed for each request."""


@contextmanager
def serving(prefix: str = "", port: int = 0) -> Iterator[str]:
    """The address of the dashboard, with its slash, while it is served."""
    handler = type("Prefixed", (Handler,), {"prefix": prefix})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}{prefix}/"
        server.shutdown()
        thread.join()


OPENAPI = {
    "openapi": "3.1.0",
    "info": {"title": "Franca", "version": "0.9.0"},
    "paths": {
        "/api/v1/counts": {
            "get": {
                "operationId": "counts",
                "summary": "The number of jobs in each state.",
                "tags": ["jobs"],
            }
        },
        "/api/v1/jobs/{job}": {
            "parameters": [
                {"name": "job", "in": "path", "required": True, "schema": {"type": "string"}}
            ],
            "get": {
                "operationId": "jobs.get",
                "summary": "One job, by id or name.",
                "tags": ["jobs"],
            },
        },
        "/api/v1/jobs": {
            "post": {
                "operationId": "jobs.push",
                "summary": "Submit a job.",
                "tags": ["jobs"],
                "requestBody": {
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Push"}}
                    }
                },
            }
        },
        "/api/v1/queues/{queue}/pause": {
            "post": {
                "operationId": "queues.pause",
                "summary": "Give out no more jobs of this queue.",
                "tags": ["queues"],
                "parameters": [
                    {"name": "queue", "in": "path", "required": True, "schema": {"type": "string"}}
                ],
            }
        },
    },
    "components": {
        "schemas": {
            "Push": {
                "type": "object",
                "required": ["queue", "type", "args"],
                "properties": {
                    "queue": {"type": "string", "default": "default"},
                    "type": {"type": "string"},
                    "args": {"type": "array"},
                },
            }
        }
    },
}
"""Enough of a document for the page that tries it."""


def main() -> None:
    port = int(sys.argv[1]) if sys.argv[1:] else 8080
    with serving(sys.argv[2] if sys.argv[2:] else "", port) as address:
        print(f"{address}  {address}?empty  {address}?role=viewer  {address}?hostile")
        threading.Event().wait()


if __name__ == "__main__":
    main()
