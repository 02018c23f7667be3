"""The files of the server's web page, read once, and the headers that they are sent with."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import PurePosixPath

from fastapi import Request, Response

HOME = "index.html"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""The content security policy: nothing but what this server sends, and nothing inline."""

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class PageAsset:
    """A file of the page."""

    content: bytes
    type: str
    tag: str  # the ETag: a digest of the content, for caches

    def response(self, request: Request) -> Response:
        """The answer: the file, or 304 for a client that has it already."""
        headers = {
            "ETag": self.tag,
            "Cache-Control": "no-cache",  # caches keep it, and ask each time whether its tag is still valid
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }
        known = request.headers.get("if-none-match", "")
        if self.tag in (each.strip().removeprefix("W/") for each in known.split(",")):
            return Response(status_code=304, headers=headers)
        return Response(self.content, headers=headers, media_type=self.type)


@lru_cache(1)
def page_assets() -> Mapping[str, PageAsset]:
    """All files of the page, by name."""
    own = (files("bertfeat.server") / "page").iterdir()
    shared = files("bertfeat.plots") / "page" / "labels.js"
    types = ((each, _TYPES.get(PurePosixPath(each.name).suffix)) for each in (*own, shared))
    return {each.name: _read_asset(each.read_bytes(), type_) for each, type_ in types if type_}


def is_page_asset(method: str, path: str) -> bool:
    """Whether a request is for a file of the page, which holds no data and so needs no key."""
    if method not in ("GET", "HEAD"):
        return False
    return path == "/" or path.removeprefix("/page/") in page_assets()


def _read_asset(content: bytes, type_: str) -> PageAsset:
    return PageAsset(content, type_, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
