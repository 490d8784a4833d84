"""The addresses of the studio beside its pages: a websocket, a few files, and what is dropped or saved."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from fastapi import Request, Response, WebSocket, WebSocketDisconnect

from unbraid.export.html import page
from unbraid.ground.errors import UnbraidError, expect
from unbraid.studio.exploring import UPLOAD
from unbraid.studio.library import Library
from unbraid.studio.live import LARGEST, answer, packed, seen
from unbraid.studio.uploads import bounded

ASSETS = {  # the only files served: by name, from the package
    "controls.js": ("unbraid.export", "text/javascript"),
    "decoder.js": ("unbraid.export", "text/javascript"),
    "explore.css": ("unbraid.export", "text/css"),
    "live.js": ("unbraid.studio", "text/javascript"),
    "explore.js": ("unbraid.studio", "text/javascript"),
    "wall.js": ("unbraid.studio", "text/javascript"),
    "studio.css": ("unbraid.studio", "text/css"),
}


def register(app: Any, library: Library, aside: Any) -> None:
    """Add what is no page: files of the package by name, the websocket, dropped pictures, films, exported pages."""

    async def asset(name: str) -> Response:
        if name not in ASSETS:
            return Response("there is no such file", 404, media_type="text/plain")
        room, kind = ASSETS[name]
        return Response(
            (resources.files(room) / name).read_bytes(), media_type=kind, headers={"cache-control": "no-cache"}
        )

    async def live(socket: WebSocket) -> None:
        await socket.accept()
        try:
            while True:
                question = await socket.receive_text()
                if len(question) > LARGEST:
                    await socket.close(1009)
                    return
                await socket.send_bytes(await aside(answer, library, question))
        except (WebSocketDisconnect, RuntimeError):
            return

    async def drop(request: Request) -> Response:
        try:
            raw = await bounded(request, UPLOAD)
            explorer = await aside(library.explorer, request.query_params.get("run", ""))
            head, images = seen(await aside(explorer.dropped, raw))
        except (UnbraidError, ValueError, OverflowError, OSError) as error:
            head, images = {"error": str(error)[:2000]}, []
        return Response(packed(head, images), media_type="application/octet-stream")

    async def film(request: Request) -> Response:
        try:
            asked = json.loads(await bounded(request, LARGEST))
            expect(isinstance(asked, dict), "a question is an object")
            explorer = await aside(library.explorer, asked.get("run", ""))
            made = await aside(explorer.film, explorer.code(asked.get("z")), asked.get("leaf"))
        except (UnbraidError, ValueError, OverflowError, RecursionError, OSError) as error:
            return Response(str(error)[:2000], 400, media_type="text/plain")
        return Response(made, media_type="image/gif")

    async def share(request: Request) -> Response:
        try:
            text = await aside(page, library.run(request.query_params.get("run", "")))
        except (UnbraidError, OSError) as error:
            return Response(str(error)[:2000], 400, media_type="text/plain")
        # a download, never shown at our own address: its scripts are not ours to run
        return Response(
            text, media_type="text/html", headers={"content-disposition": "attachment; filename=explore.html"}
        )

    app.add_api_route("/studio/file/{name}", asset, methods=["GET"])
    app.add_api_route("/studio/drop", drop, methods=["POST"])
    app.add_api_route("/studio/film", film, methods=["POST"])
    app.add_api_route("/studio/share", share, methods=["GET"])
    app.add_api_websocket_route("/studio/live", live)
