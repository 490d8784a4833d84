"""A page that is left while it loads prints nothing; real errors are still reported."""

from __future__ import annotations

import asyncio
import logging
import sys

import pytest

from unbraid.studio.left_pages import LeftPageFilter, ignore_disconnects


def run_request(message, asks):
    """Run an app that fails, behind the wrapper; `asks` says whether it looked at the connection before.

    Returns the number of calls of the app.
    """
    calls = []

    async def app(scope, receive, send):
        calls.append(scope)
        if asks:
            await receive()
        raise RuntimeError("No response returned.")

    async def receive():
        if message is None:
            await asyncio.sleep(60)
        return {"type": message}

    asyncio.run(ignore_disconnects(app)({"type": "http"}, receive, None))
    return len(calls)


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("message", ["http.disconnect", "websocket.disconnect"])
def test_errors_after_the_browser_has_gone_are_dropped(message, asks):
    assert run_request(message, asks) == 1, "the app ran and failed, and its error was dropped"


@pytest.mark.parametrize("message", ["http.request", None])
def test_errors_of_a_page_that_is_open_are_raised(message):
    with pytest.raises(RuntimeError):
        run_request(message, asks=False)


def make_record(error, text="unhandled"):
    """A log record with an exception."""
    try:
        raise error
    except Exception:
        return logging.LogRecord("nicegui", logging.ERROR, __file__, 1, text, None, sys.exc_info())


def test_the_filter_drops_left_pages_only():
    deleted = RuntimeError("The client this element belongs to has been deleted.")
    assert not LeftPageFilter().filter(make_record(deleted))
    assert LeftPageFilter().filter(make_record(RuntimeError("another mistake")))
    assert LeftPageFilter().filter(make_record(ValueError("the file has been deleted")))
    timeout = type("ClientConnectionTimeout", (TimeoutError,), {})
    assert not LeftPageFilter().filter(make_record(timeout()))
