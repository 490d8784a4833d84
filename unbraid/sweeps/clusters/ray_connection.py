"""Joining a Ray cluster, or starting one of this machine; what cannot be joined is named in seconds."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.hardware import cpu_count

CONNECT_TIMEOUT = 5.0  # seconds for a cluster to answer
SETTINGS_FRAME = 4  # how both sides of HTTP/2 begin: RFC 9113, 3.4
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, SETTINGS_FRAME, 0, 0, 0, 0, 0])


def connect_ray(address: str = "", workers: int = 0) -> Any:
    """Ray, connected to the cluster at an address, or to one of this machine's own that is started for the sweep."""
    try:
        import ray
    except ImportError:
        raise UnbraidError("--engine ray needs Ray. Install it: pip install 'unbraid[cluster]'.") from None
    where = address or os.environ.get("RAY_ADDRESS", "") or "local"
    expect(
        not where.startswith("ray://"),
        "a sweep is driven from a node of the cluster, whose disk keeps the runs",
        found=where,
        do="Call it on the head node with --address auto, or as a Ray job.",
    )
    if where not in ("local", "auto"):
        _check_reachable(where)
    os.environ.setdefault("RAY_worker_niceness", "0")  # as warm workers are; Ray's own 15 starves on a busy machine
    local: dict[str, Any] = {
        "num_cpus": max(workers, cpu_count()),
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
    }
    try:
        ray.init(where, log_to_driver=False, logging_level=logging.ERROR, **(local if where == "local" else {}))
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        said = " ".join(str(error).split())[:400].rstrip(".")
        token = "If it is up, this may not be its token: RAY_AUTH_TOKEN or ~/.ray/auth_token must be the same on all machines."
        raise UnbraidError(f"no Ray cluster could be joined at {where!r}: {said}. {token}") from error
    return ray


def _check_reachable(address: str) -> None:
    """Whether anybody listens there, and speaks as Ray does (gRPC, which is HTTP/2): Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    expect(host and port.isdecimal(), "the address of a Ray cluster reads HOST:PORT", found=repr(address),
           do="For example --address 10.0.0.7:6379, or --address auto on one of its nodes.")  # fmt: skip
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT) as link:
            spoken = os.environ.get("RAY_USE_TLS", "0") != "0" or _speaks_http2(link)
    except OSError as error:
        raise UnbraidError(
            f"no Ray cluster answers at {address}: {error.strerror or error}. Is it up ('ray status' on its head), and is this "
            "the port that 'ray start --head' printed?"
        ) from error
    expect(spoken, f"what listens at {address} is no Ray cluster",
           do="Give the port that 'ray start --head' printed (6379 unless told), not that of its dashboard.")  # fmt: skip


def _speaks_http2(link: socket.socket) -> bool:
    try:
        link.sendall(HTTP2_PREFACE)
        answer = link.recv(9)
    except OSError:
        return False
    return len(answer) > 3 and answer[3] == SETTINGS_FRAME
