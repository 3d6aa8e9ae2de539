"""Ports on the loopback address. Nothing here listens for longer than it takes to ask."""

import random
import socket
import time

HOST = "127.0.0.1"
#: Below the ports that a system gives to outgoing connections: none of them can come in between.
RANGE = range(10_000, 32_000)
_dice = random.SystemRandom()


def free_port() -> int:
    """Free when asked, and not asked for again soon; one that a test needs for another process."""
    while True:
        port = _dice.choice(RANGE)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        return port


def answers(port: int, host: str = HOST) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


def wait_for_port(port: int, seconds: float = 120) -> None:
    limit = time.monotonic() + seconds
    while not answers(port):
        if time.monotonic() > limit:
            raise TimeoutError(f"nothing listens on port {port} after {seconds} s")
        time.sleep(0.02)
