"""Reads one value out of its text. Knows no names and no environment; errors say what would be right."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from outbox_admin.core.address import parse, parse_mailbox
from outbox_admin.errors import MessageRefused

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)?", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
#: Added to or taken from today it is still a date that both databases know.
_LONGEST = timedelta(days=36525)
_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?", re.ASCII)
_BYTES = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:/\s*([smhd]))?", re.ASCII)
_FLAGS = {
    "1": True,
    "true": True,
    "on": True,
    "yes": True,
    "0": False,
    "false": False,
    "off": False,
    "no": False,
}


@dataclass(frozen=True, slots=True)
class Kind:
    """``word`` is what the README calls it; ``read`` raises ValueError with what would have been right."""

    word: str
    read: Callable[[str], object]


def _text(text: str) -> str:
    return text


def _flag(text: str) -> bool:
    try:
        return _FLAGS[text.lower()]
    except KeyError:
        raise ValueError("is neither 1 (on) nor 0 (off)") from None


def _span(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("is no duration such as 15, 15s, 5m, 72h or 3d")
    seconds = float(match[1]) * _UNITS[match[2] or "s"]
    if seconds > _LONGEST.total_seconds():
        raise ValueError("is longer than a hundred years")
    return timedelta(seconds=seconds)


def _seconds(text: str) -> float:
    return _span(text).total_seconds()


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError("is no size such as 262144, 256KiB or 32MiB")
    return int(match[1]) * _BYTES[match[2] or "B"]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _networks(text: str) -> tuple[str, ...]:
    """``unix`` stands for a socket file, whose peer has no address."""
    found = _names(text)
    if not found:
        raise ValueError("names nothing; give addresses or networks such as 127.0.0.1, 10.0.0.0/8")
    for name in found:
        try:
            name == "unix" or ipaddress.ip_network(name)
        except ValueError:
            raise ValueError("is no list of addresses or networks such as 127.0.0.1, 10.0.0.0/8") from None
    return found


def _window(text: str) -> int | None:
    return (
        None if text == "auto" else _whole(text, 1, 1000, "is neither auto nor a whole number from 1 to 1000")
    )


def _whole(text: str, low: int, high: int, complaint: str) -> int:
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise ValueError(complaint)
    return int(text)


def _rate(text: str) -> float:
    match = _RATE.fullmatch(text)
    if match is None or not (number := float(match[1])) > 0:
        raise ValueError("is no rate above 0 such as 14, 14/s, 30/m or 5000/h")
    return number / _UNITS[match[2] or "s"]


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError("is no number from 0 to 1")
    return value


def _bind(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError("is no host and port such as 127.0.0.1:8025")
    return host.strip("[]"), int(port)


def _mailbox(text: str) -> str:
    """Judged now: found wrong only by the worker, it would spoil every message that names no sender."""
    try:
        parse_mailbox(text, field="sender")
    except MessageRefused as refusal:
        raise ValueError(
            f"is no From address such as Shop <no-reply@shop.example>: {refusal.reason}"
        ) from None
    return text


def _address(text: str) -> str:
    try:
        return parse(text, field="address").envelope
    except MessageRefused as refusal:
        raise ValueError(f"is no address such as test@dev.example: {refusal.reason}") from None


TEXT = Kind("text", _text)
MAILBOX = Kind("text", _mailbox)
ADDRESS = Kind("address", _address)
PATH = Kind("path", _text)
FLAG = Kind("0 or 1", _flag)
SPAN = Kind("duration", _span)  #: added to stored times: timedelta
SECONDS = Kind("duration", _seconds)  #: measured by the monotonic clock: float
SIZE = Kind("size", _size)
NAMES = Kind("names, comma-separated", _names)
NETWORKS = Kind("networks, comma-separated", _networks)
WINDOW = Kind("auto or number", _window)
SHARE = Kind("number from 0 to 1", _share)
RATE = Kind("rate", _rate)  #: messages a second: float
BIND = Kind("host:port", _bind)


def whole(low: int, high: int) -> Kind:
    """A whole number from ``low`` to ``high``."""
    return Kind(
        "number",
        lambda text: _whole(text, low, high, f"is no whole number from {low} to {high}"),
    )


def choice(*words: str) -> Kind:
    """One of these words, exactly."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"is none of {', '.join(words)}")
        return text

    return Kind(" / ".join(words), read)


def url(*schemes: str) -> Kind:
    """A URL with one of these schemes and a host. Never echoes it: it may carry a password."""

    def read(text: str) -> str:
        try:
            parts = urlsplit(text)
            good = parts.scheme in schemes and parts.hostname and parts.port != 0
        except ValueError:  # its text would show a piece of the URL
            good = False
        if not good:
            raise ValueError(f"is no URL with a host and the scheme {' or '.join(schemes)}")
        return text

    return Kind("URL", read)
