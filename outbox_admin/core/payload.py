"""The sealed bytes of a message: JSON text to fields and back, shape only.

Strict both ways: a key twice, a key nobody knows, a number where text belongs is no message. Whoever adds a key
raises the version, so that an older worker holds such a row instead of sending half of it.
"""

from __future__ import annotations

import binascii
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from outbox_admin.core.message import Attachment
from outbox_admin.errors import PayloadUnreadable, Unreadable

if TYPE_CHECKING:
    from outbox_admin.core.frozen import Frozen

VERSION = 1


class _Shape(ValueError):
    """Not the shape of a message."""


def write(frozen: Frozen) -> bytes:
    """UTF-8 JSON without absent fields; a single recipient as plain text."""
    document: dict[str, Any] = {"v": VERSION}
    if frozen.mime is None:
        document["to"] = frozen.to[0] if len(frozen.to) == 1 else frozen.to
    for key, name in _PLAIN.items():
        if (value := getattr(frozen, name)) is not None:
            document[key] = value
    if frozen.cc:
        document["cc"] = frozen.cc
    if frozen.reply_to:
        document["reply_to"] = frozen.reply_to
    if frozen.headers:
        document["headers"] = dict(frozen.headers)
    if frozen.attachments:
        document["attachments"] = [_write_attachment(attachment) for attachment in frozen.attachments]
    if frozen.date is not None:
        document["date"] = frozen.date.isoformat()
    if frozen.mime is not None:
        document["mime"] = _base64(frozen.mime)
    return _ENCODE(document).encode()


def read(data: bytes) -> dict[str, Any]:
    """The fields of ``Frozen``. Raises :class:`PayloadUnreadable`; its traceback holds nothing of the text."""
    reason = Unreadable.MALFORMED
    try:
        document = _DECODE(data.decode())
        if not _is_newer(document):
            return _fields(document)
        reason = Unreadable.NEWER_FORMAT
    except (ValueError, OverflowError, RecursionError):
        # Raised below, outside this block: a JSON error carries the whole text along.
        reason = Unreadable.MALFORMED
    raise PayloadUnreadable(reason)


def _is_newer(document: object) -> bool:
    version = document.get("v") if type(document) is dict else None
    return type(version) is int and version > VERSION


def _fields(document: object) -> dict[str, Any]:
    if (
        type(document) is not dict
        or type(version := document.pop("v", None)) is not int
        or version != VERSION
    ):
        raise _Shape
    fields: dict[str, Any] = {}
    for key, value in document.items():
        name, reader = _READERS.get(key) or _refuse()
        if value is not None:  # how other producers write what is absent
            fields[name] = reader(value)
    if "mime" not in fields and ("to" not in fields or not ("subject" in fields or "template" in fields)):
        raise _Shape
    if ("template" in fields) != ("context" in fields) or ("mime" in fields and "template" in fields):
        raise _Shape
    return fields


def _refuse() -> tuple[str, Callable[[object], Any]]:
    raise _Shape


def _text(value: object) -> str:
    if type(value) is not str:
        raise _Shape
    return value


def _texts(value: object) -> tuple[str, ...]:
    return (value,) if type(value) is str else tuple(_text(item) for item in _list(value))


def _list(value: object) -> list[object]:
    if type(value) is not list:
        raise _Shape
    return value


def _object(value: object) -> dict[str, Any]:
    if type(value) is not dict:
        raise _Shape
    return value


def _headers(value: object) -> tuple[tuple[str, str], ...]:
    return tuple((name, _text(content)) for name, content in _object(value).items())


def _octets(value: object) -> bytes:
    return binascii.a2b_base64(_text(value), strict_mode=True)


def _date(value: object) -> datetime:
    date = datetime.fromisoformat(_text(value))
    if date.tzinfo is None:
        raise _Shape
    date.astimezone(UTC)  # at the edge of the calendar there may be none
    return date


def _attachments(value: object) -> tuple[Attachment, ...]:
    return tuple(_read_attachment(_object(item)) for item in _list(value))


def _read_attachment(item: dict[str, Any]) -> Attachment:
    inline_id = item.get("inline_id")
    if not {"name", "type", "content"} <= item.keys() <= {"name", "type", "content", "inline_id"}:
        raise _Shape
    return Attachment(
        name=_text(item["name"]),
        content=_octets(item["content"]),
        content_type=_text(item["type"]),
        inline_id=None if inline_id is None else _text(inline_id),
    )


def _write_attachment(attachment: Attachment) -> dict[str, str]:
    item = {"name": attachment.name, "type": attachment.content_type, "content": _base64(attachment.content)}
    if attachment.inline_id is not None:
        item["inline_id"] = attachment.inline_id
    return item


def _base64(octets: bytes) -> str:
    return binascii.b2a_base64(octets, newline=False).decode()


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers of a doubled key may see two messages."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Shape
    return found


def _no_constant(_: str) -> None:
    """NaN and Infinity are not JSON."""
    raise _Shape


def _finite(text: str) -> float:
    """``1e999`` is JSON, and no number that Python could write again."""
    number = float(text)
    if not math.isfinite(number):
        raise _Shape
    return number


_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_DECODE = json.JSONDecoder(
    object_pairs_hook=_without_doubles, parse_constant=_no_constant, parse_float=_finite
).decode

#: JSON key -> field of Frozen, for what is written as it is
_PLAIN = {
    "subject": "subject",
    "text": "text",
    "html": "html",
    "from": "sender",
    "envelope_from": "envelope_from",
    "message_id": "message_id",
    "template": "template",
    "context": "context",
    "locale": "locale",
}

_READERS: dict[str, tuple[str, Callable[[object], Any]]] = {
    **{key: (name, _text) for key, name in _PLAIN.items()},
    "context": ("context", _object),
    "to": ("to", _texts),
    "cc": ("cc", _texts),
    "reply_to": ("reply_to", _texts),
    "headers": ("headers", _headers),
    "attachments": ("attachments", _attachments),
    "date": ("date", _date),
    "mime": ("mime", _octets),
}
