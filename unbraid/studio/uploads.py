"""Bodies of requests, read piece by piece and never beyond a bound."""

from __future__ import annotations

from typing import Any

from unbraid.core.errors import UnbraidError, expect


async def read_body(request: Any, max_bytes: int) -> bytes:
    """The body of a request, or an error as soon as it is known to be larger than `most` bytes."""
    told = request.headers.get("content-length", "")
    if told:
        number = int(told) if told.isascii() and told.isdecimal() and len(told) < 16 else max_bytes + 1
        expect(number <= max_bytes, "the file is too large", found=f"{told[:16]} bytes", allowed=f"{max_bytes:,}")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > max_bytes:
            raise UnbraidError(f"the file is too large: allowed {max_bytes:,} bytes.")
    return bytes(body)
