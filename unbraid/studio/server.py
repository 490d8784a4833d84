"""Web server of the studio: NiceGUI pages and routes on 127.0.0.1, behind access control."""

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
from unbraid.studio.left_pages import ignore_disconnects, silence_left_pages
from unbraid.studio.run_library import Library
from unbraid.studio.websocket import MAX_REQUEST_BYTES

HOST = "127.0.0.1"
MISSING_EXTRA = "the studio needs NiceGUI and plotly. Install them with: pip install 'unbraid[studio]'"


def create_app(library: Library, token: str, port: int) -> App:
    """Build the protected app. NiceGUI keeps one app per process, so there is one studio per process.

    Args:
        library: the runs of the studio.
        token: the secret of this server.
        port: the port that the server listens on.
    """
    os.environ.setdefault("NICEGUI_STORAGE_PATH", tempfile.mkdtemp(prefix="unbraid-studio-"))
    try:
        import plotly  # noqa: F401
        from fastapi import FastAPI
        from nicegui import app, ui
    except ImportError as error:
        raise UnbraidError(MISSING_EXTRA) from error
    from unbraid.studio import labelling, pages, routes

    workers = ThreadPoolExecutor(2, thread_name_prefix="studio")

    async def run_in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function outside the event loop, so that other tabs stay responsive."""
        return await asyncio.get_running_loop().run_in_executor(workers, work, *arguments)

    routes.register_routes(app, library, run_in_thread)
    pages.register_pages(library, run_in_thread)
    labelling.register_labelling(app, library, run_in_thread)
    outer = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    ui.run_with(
        outer, title="unbraid studio", dark=None, show_welcome_message=False, favicon="🧶", reconnect_timeout=30.0
    )
    silence_left_pages()
    return ignore_disconnects(protect_app(outer, token, port))


def free_port(port: int = 0) -> int:
    """Return a port of 127.0.0.1 that is free.

    Args:
        port: the wanted port; 0 for any.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise UnbraidError(f"port {port} cannot be used: {error.strerror}. Choose another --port.") from error
        return int(probe.getsockname()[1])


def serve(root: Path, port: int = 0, open_browser: bool = True, echo: Callable[[str], None] = print) -> None:
    """Serve the studio until Ctrl-C.

    Args:
        root: a directory of runs, or one run.
        port: port on 127.0.0.1; 0 for any.
        open_browser: open a browser window.
        echo: function that prints a line.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise UnbraidError(MISSING_EXTRA) from error
    import warnings

    import torch

    warnings.filterwarnings("ignore", category=FutureWarning, module="nicegui")  # it inspects every object
    torch.set_num_threads(1)  # a small decoder gains nothing from more threads; other tabs and trainings do
    library = Library(root)
    port, token = free_port(port), secrets.token_urlsafe(24)
    app = create_app(library, token, port)
    address = f"http://{HOST}:{port}/?token={token}"
    echo(f"studio over {library.root}: {address}\nCtrl-C stops the server; trainings that it started continue.")
    if open_browser:
        import threading
        import webbrowser

        threading.Timer(1.0, webbrowser.open, [address]).start()
    config = uvicorn.Config(app, HOST, port, log_level="warning", ws_max_size=MAX_REQUEST_BYTES, server_header=False)
    uvicorn.Server(config).run()
