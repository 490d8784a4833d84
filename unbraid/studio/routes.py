"""Routes of the studio that are not pages: WebSocket, assets, uploads and downloads."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib import resources
from typing import Any

from fastapi import Request, Response, WebSocket, WebSocketDisconnect

from unbraid.core.errors import UnbraidError, expect
from unbraid.discovery.results import refresh_names
from unbraid.export.html import render_explorer
from unbraid.runs.folder.leaf_names import name_leaf
from unbraid.studio.explorer import MAX_UPLOAD_BYTES
from unbraid.studio.run_library import Library
from unbraid.studio.traversal_gif import leaf_gif, wall_gif
from unbraid.studio.uploads import read_body
from unbraid.studio.websocket import MAX_REQUEST_BYTES, handle_message, image_response, pack_message

ASSETS = {  # the only files that are served
    "controls.js": ("unbraid.export", "text/javascript"),
    "decoder.js": ("unbraid.export", "text/javascript"),
    "explore.css": ("unbraid.export", "text/css"),
    "live.js": ("unbraid.studio", "text/javascript"),
    "explore.js": ("unbraid.studio", "text/javascript"),
    "map.js": ("unbraid.studio", "text/javascript"),
    "wall.js": ("unbraid.studio", "text/javascript"),
    "label.js": ("unbraid.studio", "text/javascript"),
    "studio.css": ("unbraid.studio", "text/css"),
}


def register_routes(app: Any, library: Library, run_in_thread: Any) -> None:
    """Register assets, WebSocket, image upload, GIF export and HTML export.

    Args:
        app: the FastAPI app.
        library: the runs of the studio.
        run_in_thread: awaitable that calls a function outside the event loop.
    """

    async def asset(name: str) -> Response:
        if name not in ASSETS:
            return Response("there is no such file", 404, media_type="text/plain")
        package, media_type = ASSETS[name]
        content = (resources.files(package) / name).read_bytes()
        return Response(content, media_type=media_type, headers={"cache-control": "no-cache"})

    async def live(socket: WebSocket) -> None:
        await socket.accept()
        try:
            while True:
                event = await socket.receive()
                if event["type"] == "websocket.disconnect":
                    return
                message = event.get("text") or event.get("bytes") or ""
                if len(message) > MAX_REQUEST_BYTES:
                    await socket.close(1009)
                    return
                await socket.send_bytes(await run_in_thread(handle_message, library, message))
        except (WebSocketDisconnect, RuntimeError):
            return

    async def upload(request: Request) -> Response:
        try:
            raw = await read_body(request, MAX_UPLOAD_BYTES)
            explorer = await run_in_thread(library.explorer, request.query_params.get("run", ""))
            head, images = image_response(await run_in_thread(explorer.uploaded_image, raw))
        except (UnbraidError, ValueError, OverflowError, OSError) as error:
            head, images = {"error": str(error)[:2000]}, []
        return Response(pack_message(head, images), media_type="application/octet-stream")

    async def film(request: Request) -> Response:
        try:
            wanted = json.loads(await read_body(request, MAX_REQUEST_BYTES))
            expect(isinstance(wanted, dict), "a request is a JSON object")
            explorer = await run_in_thread(library.explorer, wanted.get("run", ""))
            code = explorer.start_code if wanted.get("z") is None else explorer.parse_code(wanted["z"])
            if "mode" in wanted:
                content = await run_in_thread(wall_gif, explorer, code, str(wanted["mode"]))
            else:
                content = await run_in_thread(leaf_gif, explorer, code, wanted.get("leaf"))
        except (UnbraidError, ValueError, OverflowError, RecursionError, OSError) as error:
            return Response(str(error)[:2000], 400, media_type="text/plain")
        return Response(content, media_type="image/gif")

    async def share(request: Request) -> Response:
        try:
            text = await run_in_thread(render_explorer, library.run(request.query_params.get("run", "")))
        except (UnbraidError, OSError) as error:
            return Response(str(error)[:2000], 400, media_type="text/plain")
        # as a download: scripts of the page must not run under the studio's origin
        return Response(
            text, media_type="text/html", headers={"content-disposition": "attachment; filename=explore.html"}
        )

    register_naming(app, library, run_in_thread)
    app.add_api_route("/studio/file/{name}", asset, methods=["GET"])
    app.add_api_route("/studio/drop", upload, methods=["POST"])
    app.add_api_route("/studio/film", film, methods=["POST"])
    app.add_api_route("/studio/share", share, methods=["GET"])
    app.add_api_websocket_route("/studio/live", live)


def register_naming(app: Any, library: Library, run_in_thread: Any) -> None:
    """Register the route that names a leaf of a run.

    Args:
        app: the FastAPI app.
        library: the runs of the studio.
        run_in_thread: awaitable that calls a function outside the event loop.
    """

    async def name(request: Request) -> Response:
        try:
            wanted = json.loads(await read_body(request, MAX_REQUEST_BYTES))
            expect(isinstance(wanted, dict), "a request is a JSON object")
            run = await run_in_thread(library.run, wanted.get("run", ""))
            leaves = [leaf.name for leaf in run.recipe.tree.leaves]
            name_leaf(run.path, leaves, str(wanted.get("leaf", "")), str(wanted.get("name", "")))
            with suppress(UnbraidError):  # pages of a discovery that cannot be written again keep the old name
                await run_in_thread(refresh_names, run.path)
        except (UnbraidError, ValueError, RecursionError, OSError) as error:
            return Response(str(error)[:2000], 400, media_type="text/plain")
        return Response("named", media_type="text/plain")

    app.add_api_route("/studio/name", name, methods=["POST"])
