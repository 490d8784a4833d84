"""Pages that the user leaves while they load: their requests and tasks end without a traceback in the terminal."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from unbraid.studio.auth import App, Scope

LOGGERS = ("nicegui", "asyncio")
LEFT_MESSAGES = ("has been deleted", "No response returned", "client connection timed out")


def ignore_disconnects(app: App) -> App:
    """Wrap an ASGI app: an error of a request whose browser has gone is not raised.

    Args:
        app: the ASGI app.
    """

    async def quiet_app(scope: Scope, receive: Any, send: Any) -> None:
        gone = False

        async def watched_receive() -> Any:
            nonlocal gone
            message = await receive()
            gone = gone or message["type"] in ("http.disconnect", "websocket.disconnect")
            return message

        try:
            await app(scope, watched_receive, send)
        except Exception:
            if not (gone or await _has_left(receive)):
                raise

    return quiet_app


async def _has_left(receive: Any) -> bool:
    """Whether the next message says that the browser has gone; the server answers at once if it has."""
    try:
        message = await asyncio.wait_for(receive(), 0.05)
    except Exception:
        return False
    return str(message["type"]).endswith(".disconnect")


class LeftPageFilter(logging.Filter):
    """Drop records of tasks that found their page left: its elements are deleted, or it never connected."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for a record about a page that was left.

        Args:
            record: the log record.
        """
        error = record.exc_info[1] if record.exc_info else None
        if type(error).__name__ == "ClientConnectionTimeout":
            return False
        text = f"{record.getMessage()} {error or ''}"
        about_page = isinstance(error, RuntimeError) or record.levelno <= logging.WARNING
        return not (about_page and any(part in text for part in LEFT_MESSAGES))


def silence_left_pages() -> None:
    """Add the filter to the loggers that report errors of tasks; a second call changes nothing."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(one, LeftPageFilter) for one in logger.filters):
            logger.addFilter(LeftPageFilter())
