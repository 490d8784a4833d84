"""The server: pages of NiceGUI, one websocket, a few files; on 127.0.0.1 only, behind the guard."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from unbraid.core.errors import UnbraidError
from unbraid.studio.auth import App, protect_app
from unbraid.studio.run_library import Library
from unbraid.studio.websocket import MAX_REQUEST_BYTES

HOST = "127.0.0.1"
MISSING_EXTRA = "the studio needs NiceGUI and plotly. Install them with: pip install 'unbraid[studio]'"


def create_app(library: Library, token: str, port: int) -> App:
    """The whole app behind its guard. NiceGUI keeps one app per process, so there is one studio per process."""
    os.environ.setdefault("NICEGUI_STORAGE_PATH", tempfile.mkdtemp(prefix="unbraid-studio-"))
    try:
        import plotly  # noqa: F401
        from fastapi import FastAPI
        from nicegui import app, ui
    except ImportError as error:
        raise UnbraidError(MISSING_EXTRA) from error
    from unbraid.studio import pages, routes

    workers = ThreadPoolExecutor(2, thread_name_prefix="studio")

    async def aside(work: Callable[..., Any], *given: Any) -> Any:
        """Work done away from the event loop, so that other tabs go on."""
        return await asyncio.get_running_loop().run_in_executor(workers, work, *given)

    routes.register_routes(app, library, aside)
    pages.register_pages(library, aside)
    outer = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    ui.run_with(
        outer, title="unbraid studio", dark=None, show_welcome_message=False, favicon="🧶", reconnect_timeout=30.0
    )
    return protect_app(outer, token, port)


def free_port(port: int = 0) -> int:
    """A port of this machine that nobody uses; 0 chooses one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise UnbraidError(f"port {port} cannot be used: {error.strerror}. Choose another --port.") from error
        return int(probe.getsockname()[1])


def serve(root: Path, port: int = 0, open_browser: bool = True, echo: Callable[[str], None] = print) -> None:
    """Serve the studio until Ctrl-C."""
    try:
        import uvicorn
    except ImportError as error:
        raise UnbraidError(MISSING_EXTRA) from error
    import warnings

    import torch

    warnings.filterwarnings("ignore", category=FutureWarning, module="nicegui")  # it looks at every object there is
    torch.set_num_threads(1)  # a small decoder gains nothing from more, and other tabs and trainings do
    library = Library(root)
    port, token = free_port(port), secrets.token_urlsafe(24)
    app = create_app(library, token, port)
    address = f"http://{HOST}:{port}/?token={token}"
    echo(f"studio over {library.root}: {address}\nCtrl-C ends it; trainings that it started go on.")
    if open_browser:
        import threading
        import webbrowser

        threading.Timer(1.0, webbrowser.open, [address]).start()
    config = uvicorn.Config(app, HOST, port, log_level="warning", ws_max_size=MAX_REQUEST_BYTES, server_header=False)
    uvicorn.Server(config).run()
