"""Access control of the studio: host, origin and token are checked on every HTTP request and WebSocket.

A page of another site can reach 127.0.0.1 from the user's own browser. It cannot use our host name (DNS rebinding is
refused), cannot send our origin, and has no cookie. The first visit exchanges the token of the address for that cookie.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlencode

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[..., Awaitable[Any]], Callable[..., Awaitable[None]]], Awaitable[None]]

CONTENT_SECURITY_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
SAFE_HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
SAFE_METHODS = ("GET", "HEAD")


def protect_app(app: App, token: str, port: int) -> App:
    """Wrap an ASGI app: only requests with the token, from this host and this origin, reach it.

    Args:
        app: the ASGI app to protect.
        token: the secret of this server.
        port: the port that the server listens on.
    """
    hosts = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost")}
    origins = {b"http://" + host for host in hosts}
    name = f"unbraid_{port}"  # cookies are shared by all ports of a host, and two studios may be open

    async def checked_app(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        if scope["type"] not in ("http", "websocket"):
            return
        headers = _unique_headers(scope["headers"])
        if headers is None or headers.get(b"host") not in hosts:
            await _refuse(scope, receive, send, 421, "Wrong host name. Open the address that 'unbraid studio' printed.")
            return
        origin = headers.get(b"origin")
        needs_origin = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        if origin not in origins and (needs_origin or origin is not None):
            await _refuse(scope, receive, send, 403, "Requests from other sites are refused.")
            return
        tokens = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        if scope["type"] == "http" and scope["method"] == "GET" and tokens and _tokens_match(tokens[0], token):
            await _exchange_token(scope, send, name, token)
            return
        if not _tokens_match(_read_cookie(headers, name), token):
            await _refuse(scope, receive, send, 403, "Open the address that 'unbraid studio' printed, with its token.")
            return
        await app(scope, receive, _with_headers(send))

    return checked_app


def _unique_headers(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes] | None:
    """Return the headers by name, or None if host or origin occurs twice."""
    found: dict[bytes, bytes] = {}
    for key, value in headers:
        if key in found and key in (b"host", b"origin"):
            return None
        found[key] = found[key] + b"; " + value if key == b"cookie" and key in found else value
    return found


def _tokens_match(candidate: str, token: str) -> bool:
    return hmac.compare_digest(candidate.encode(errors="replace"), token.encode())


def _read_cookie(headers: dict[bytes, bytes], name: str) -> str:
    try:
        cookie = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(name)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


async def _exchange_token(scope: Scope, send: Any, name: str, token: str) -> None:
    """Store the token as a cookie and redirect to the same address without it."""
    query = parse_qs(scope["query_string"].decode("latin-1"))
    query.pop("token", None)
    rest = urlencode(query, doseq=True)
    path = "/" + scope["path"].lstrip("/\\")  # "//other" would name another host
    clean = _escape_url(path + (f"?{rest}" if rest else ""))
    # an HTTP redirect would still count as started by another site, and the browser would not send a strict cookie
    page = f'<!doctype html><title>unbraid</title><meta http-equiv="refresh" content="0;url={clean}">'
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"set-cookie", f"{name}={token}; HttpOnly; SameSite=Strict; Path=/".encode()),
        *SAFE_HEADERS,
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": page.encode()})


def _escape_url(address: str) -> str:
    from html import escape
    from urllib.parse import quote

    return escape(quote(address, safe="/?&=%:+,;@.-_~"))


async def _refuse(scope: Scope, receive: Any, send: Any, status: int, reason: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store"), *SAFE_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": reason.encode()})


def _with_headers(send: Any) -> Any:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            named = {key for key, _ in SAFE_HEADERS}
            kept = [(key, value) for key, value in message.get("headers", []) if key.lower() not in named]
            message = {**message, "headers": [*kept, *SAFE_HEADERS]}
        await send(message)

    return sending
