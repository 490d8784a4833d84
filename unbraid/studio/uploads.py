"""Request bodies of bounded size."""

from __future__ import annotations

from typing import Any

from unbraid.core.errors import expect

MAX_DISCARDED_BYTES = 1 << 28  # of a body that is too large; the connection is reset after that


async def read_body(request: Any, max_bytes: int) -> bytes:
    """Read the body of a request; of one that exceeds the limit nothing is kept.

    The rest of a large body is read and discarded, because a client receives the response only after it has sent all.

    Args:
        request: the HTTP request.
        max_bytes: the limit.
    """
    body, size = bytearray(), 0
    async for piece in request.stream():
        size += len(piece)
        if size <= max_bytes:
            body += piece
        if size > MAX_DISCARDED_BYTES:
            break
    expect(size <= max_bytes, "the file is too large", found=f"{size:,} bytes", allowed=f"{max_bytes:,}")
    return bytes(body)
