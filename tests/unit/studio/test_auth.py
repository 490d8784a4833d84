"""Access control of the studio: each attack that it prevents, for HTTP and WebSocket."""

from __future__ import annotations

import asyncio

import pytest

from unbraid.studio.auth import protect_app

TOKEN, PORT = "s3cret", 8123
HOST = b"127.0.0.1:8123"
VALID_HEADERS = [(b"host", HOST), (b"origin", b"http://127.0.0.1:8123"), (b"cookie", b"unbraid_8123=s3cret")]


def send_request(headers, kind="http", method="GET", path="/", query=b""):
    """Whether the protected app was reached, and the messages that were sent."""
    reached, sent = [], []

    async def app(scope, receive, send):
        reached.append(scope["path"])
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"x-frame-options", b"ALLOW")]})
            await send({"type": "http.response.body", "body": b"inside"})

    async def receive():
        return {"type": f"{kind}.connect"}

    async def send(message):
        sent.append(message)

    scope = {"type": kind, "path": path, "headers": headers, "query_string": query, "method": method}
    asyncio.run(protect_app(app, TOKEN, PORT)(scope, receive, send))
    return bool(reached), sent


def headers_without(name: bytes, *extra):
    return [(k, v) for k, v in VALID_HEADERS if k != name] + list(extra)


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_valid_requests_reach_the_app(kind):
    assert send_request(VALID_HEADERS, kind)[0]
    assert send_request(headers_without(b"origin"))[0], "a plain visit sends no origin"


ATTACKS = {
    "no cookie": headers_without(b"cookie"),
    "wrong token": headers_without(b"cookie", (b"cookie", b"unbraid_8123=guess")),
    "token as prefix": headers_without(b"cookie", (b"cookie", b"unbraid_8123=s3cre")),
    "another studio's cookie": headers_without(b"cookie", (b"cookie", b"unbraid_9999=s3cret")),
    "broken cookie": headers_without(b"cookie", (b"cookie", b"\xff;;;=")),
    "rebound name": headers_without(b"host", (b"host", b"evil.example:8123")),
    "no host": headers_without(b"host"),
    "another port": headers_without(b"host", (b"host", b"127.0.0.1:80")),
    "two hosts": [*VALID_HEADERS, (b"host", b"evil.example")],
    "another origin": headers_without(b"origin", (b"origin", b"https://evil.example")),
    "null origin": headers_without(b"origin", (b"origin", b"null")),
    "origin with our name inside": headers_without(b"origin", (b"origin", b"http://127.0.0.1:8123.evil.example")),
    "another local port": headers_without(b"origin", (b"origin", b"http://127.0.0.1:5000")),
    "two origins": [*VALID_HEADERS, (b"origin", b"https://evil.example")],
}


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("attack", sorted(ATTACKS))
def test_attacks_never_reach_the_app(attack, kind):
    reached, sent = send_request(ATTACKS[attack], kind)
    assert not reached
    if kind == "websocket":
        assert sent == [{"type": "websocket.close", "code": 1008}]
    else:
        assert sent[0]["status"] in (403, 421)
        assert b"inside" not in sent[1]["body"]


def test_a_websocket_and_a_write_must_name_their_origin():
    assert not send_request(headers_without(b"origin"), "websocket")[0]
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert not send_request(headers_without(b"origin"), method=method)[0]


def test_the_token_becomes_a_cookie_and_leaves_the_address():
    reached, sent = send_request(headers_without(b"cookie"), path="/explore", query=b"run=a%20b&token=s3cret")
    assert not reached
    headers = dict(sent[0]["headers"])
    cookie = headers[b"set-cookie"].decode()
    assert cookie.startswith("unbraid_8123=s3cret;")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert headers[b"cache-control"] == b"no-store"
    body = sent[1]["body"].decode()
    assert "s3cret" not in body
    assert 'url=/explore?run=a+b"' in body


def test_a_token_opens_no_websocket_and_no_write():
    assert not send_request(headers_without(b"cookie"), "websocket", query=b"token=s3cret")[0]
    assert not send_request(headers_without(b"cookie"), method="POST", query=b"token=s3cret")[0]


@pytest.mark.parametrize("path", ["//evil.example/x", "/\\evil.example", '/"><script>alert(1)</script>'])
def test_the_redirect_stays_on_this_host(path):
    body = send_request(headers_without(b"cookie"), path=path, query=b"token=s3cret")[1][1]["body"].decode()
    assert "url=//" not in body
    assert "<script" not in body


def test_every_response_forbids_frames_and_foreign_scripts():
    for headers in (VALID_HEADERS, headers_without(b"cookie")):
        named = send_request(headers)[1][0]["headers"]
        assert [v for k, v in named if k == b"x-frame-options"] == [b"DENY"]
        policy = dict(named)[b"content-security-policy"].decode()
        assert "default-src 'self'" in policy
        assert "http:" not in policy
