"""Connect to a Ray cluster, or start one on this machine. An unreachable cluster is reported within seconds."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.hardware import cpu_count

CONNECT_TIMEOUT = 5.0  # seconds
SETTINGS_FRAME = 4  # the first frame of both sides of HTTP/2: RFC 9113, 3.4
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, SETTINGS_FRAME, 0, 0, 0, 0, 0])


def connect_ray(address: str = "", workers: int = 0) -> Any:
    """Return the module `ray`, connected to a cluster.

    Args:
        address: HOST:PORT of the cluster, or 'auto' on one of its nodes; by default a cluster is started on this machine.
        workers: least number of cores that a cluster on this machine offers.
    """
    try:
        import ray
    except ImportError:
        raise UnbraidError("--engine ray needs Ray. Install it: pip install 'unbraid[cluster]'.") from None
    address = address or os.environ.get("RAY_ADDRESS", "") or "local"
    expect(
        not address.startswith("ray://"),
        "a sweep is driven from a node of the cluster, whose disk keeps the runs",
        found=address,
        do="Run it on the head node with --address auto, or as a Ray job.",
    )
    if address not in ("local", "auto"):
        _check_reachable(address)
    # like local workers; Ray's default of 15 starves on a busy machine
    os.environ.setdefault("RAY_worker_niceness", "0")
    local: dict[str, Any] = {
        "num_cpus": max(workers, cpu_count()),
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
    }
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **(local if address == "local" else {}))
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        message = " ".join(str(error).split())[:400].rstrip(".")
        token = "If the cluster is up, check the token: RAY_AUTH_TOKEN or ~/.ray/auth_token must be the same on all machines."
        raise UnbraidError(f"cannot connect to a Ray cluster at {address!r}: {message}. {token}") from error
    return ray


def _check_reachable(address: str) -> None:
    """Raise an error unless a gRPC (HTTP/2) server listens at the address; Ray itself would retry for minutes."""
    host, _, port = address.rpartition(":")
    expect(host and port.isdecimal(), "the address of a Ray cluster reads HOST:PORT", found=repr(address),
           do="For example --address 10.0.0.7:6379, or --address auto on one of its nodes.")  # fmt: skip
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT) as connection:
            is_ray = os.environ.get("RAY_USE_TLS", "0") != "0" or _speaks_http2(connection)
    except OSError as error:
        raise UnbraidError(
            f"no Ray cluster answers at {address}: {error.strerror or error}. Check that it is up ('ray status' on its "
            "head node) and that this is the port that 'ray start --head' printed."
        ) from error
    expect(is_ray, f"the server at {address} is not a Ray cluster",
           do="Give the port that 'ray start --head' printed (by default 6379), not that of the dashboard.")  # fmt: skip


def _speaks_http2(connection: socket.socket) -> bool:
    try:
        connection.sendall(HTTP2_PREFACE)
        answer = connection.recv(9)
    except OSError:
        return False
    return len(answer) > 3 and answer[3] == SETTINGS_FRAME
