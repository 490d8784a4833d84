"""Request bodies of bounded size."""

from __future__ import annotations

from typing import Any

from unbraid.core.errors import UnbraidError, expect


async def read_body(request: Any, max_bytes: int) -> bytes:
    """Read the body of a request; fail as soon as it exceeds the limit.

    Args:
        request: the HTTP request.
        max_bytes: the limit.
    """
    length = request.headers.get("content-length", "")
    if length:
        size = int(length) if length.isascii() and length.isdecimal() and len(length) < 16 else max_bytes + 1
        expect(size <= max_bytes, "the file is too large", found=f"{length[:16]} bytes", allowed=f"{max_bytes:,}")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > max_bytes:
            raise UnbraidError(f"the file is too large: allowed {max_bytes:,} bytes.")
    return bytes(body)
