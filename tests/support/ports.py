"""Ports on the loopback address. Nothing here listens for longer than it takes to ask."""

import socket
import time

HOST = "127.0.0.1"


def free_port() -> int:
    """Free when asked; another process could take it before it is used."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int, host: str = HOST) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


def wait_for_port(port: int, seconds: float = 20) -> None:
    limit = time.monotonic() + seconds
    while not answers(port):
        if time.monotonic() > limit:
            raise TimeoutError(f"nothing listens on port {port} after {seconds} s")
        time.sleep(0.02)
