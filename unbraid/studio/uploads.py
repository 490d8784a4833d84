"""Bodies of requests, read piece by piece and never beyond a bound."""

from __future__ import annotations

from typing import Any

from unbraid.ground.errors import UnbraidError, expect


async def bounded(request: Any, most: int) -> bytes:
    """The body of a request, or an error as soon as it is known to be larger than `most` bytes."""
    told = request.headers.get("content-length", "")
    if told:
        number = int(told) if told.isascii() and told.isdecimal() and len(told) < 16 else most + 1
        expect(number <= most, "the file is too large", found=f"{told[:16]} bytes", allowed=f"{most:,}")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise UnbraidError(f"the file is too large: allowed {most:,} bytes.")
    return bytes(body)
