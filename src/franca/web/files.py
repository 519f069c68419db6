"""Static files: the dashboard, the page to sign in, the page to try the API."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from pathlib import Path
from typing import Final

from msgspec import Struct
from starlette.responses import Response

from franca.web.problems import Declined
from franca.web.router import Asked

STATIC: Final = Path(__file__).parent / "static"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}
"""Kinds of files that are served; others are not."""
FILE_BYTES_MAX: Final = 4 * 1024 * 1024
GZIP_FROM: Final = 512


class _File(Struct):
    """A file as it is kept once it was asked for."""

    content: bytes
    packed: bytes
    tag: str
    media: str


class Files:
    """The files of a folder, as they were when the server started. No path leads out of it."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._paths = {
            path.relative_to(folder).as_posix(): path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix in TYPES and not path.is_symlink()
        }
        self._read: dict[str, _File] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._paths

    async def answer(self, asked: Asked) -> Response:
        """The file that the path names."""
        return await self.response(asked, asked.path["path"])

    async def response(self, asked: Asked, name: str) -> Response:
        """This file, packed if the caller takes that; or that it has not changed."""
        file = self._read.get(name)
        if file is None:
            path = self._paths.get(name)
            if path is None:
                raise Declined(404, "not-found", "there is nothing at this path")
            file = await asyncio.get_running_loop().run_in_executor(None, _read, path)
            self._read[name] = file
        asked_for = asked.request.headers
        headers = {"etag": file.tag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if file.tag in asked_for.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        content = file.content
        if file.packed and "gzip" in asked_for.get("accept-encoding", ""):
            content = file.packed
            headers["content-encoding"] = "gzip"
        return Response(content, headers=headers, media_type=file.media)


def _read(path: Path) -> _File:
    content = path.read_bytes()[:FILE_BYTES_MAX]
    packed = gzip.compress(content, 9, mtime=0) if len(content) >= GZIP_FROM else b""
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    packed = packed if len(packed) < len(content) else b""
    return _File(content, packed, tag, TYPES[path.suffix])
