"""The fields and parts of a given message, made fit for any relay: only what is not, is written anew."""

from __future__ import annotations

import binascii
from collections.abc import Sequence

from outbox_admin.core import body, headers
from outbox_admin.core.address_list import parse_list
from outbox_admin.core.entity import (
    Entity,
    Field,
    conforms,
    from_unix,
    parameters,
    split_parts,
    take_apart,
    to_crlf,
)
from outbox_admin.core.parameters import parameter
from outbox_admin.errors import MessageRefused

MAX_DEPTH = 30

_ADDRESS_FIELDS = frozenset(
    {"from", "sender", "to", "cc", "reply-to", "resent-from", "resent-sender", "resent-to", "resent-cc"}
)
_PARAMETER_FIELDS = frozenset({"content-type", "content-disposition"})
_AS_IT_IS = frozenset({"", "7bit", "8bit", "binary"})


def mend_fields(fields: Sequence[Field], *, line: int) -> tuple[Field, ...]:
    """Fields beyond ASCII are encoded; what is one line longer than ``line``, or holds one over 998, is folded."""
    return tuple(field if _is_fit(field, line) else _mend_field(field) for field in fields)


def _is_fit(field: Field, line: int) -> bool:
    folded = field.raw.count(b"\r\n") > 1
    return field.raw.isascii() and field.longest <= (body.MAX_LINE if folded else line)


def mend_body(entity: Entity, *, top: bool = False, depth: int = 0) -> Entity:
    """The entity with a 7-bit body in proper lines. Raises :class:`MessageRefused` where that would break it."""
    if conforms(entity.body):
        return entity
    if depth > MAX_DEPTH:
        raise MessageRefused("message", f"its parts are nested more than {MAX_DEPTH} levels deep")
    kind, found = parameters(entity.get("content-type"))
    if kind.startswith("multipart/"):
        return _mend_multipart(entity, kind, dict(found).get("boundary", ""), depth)
    if kind in {"message/rfc822", "message/global"}:
        return _relabelled(entity, _mend_octets(entity.body, depth), "7bit")
    return _mend_leaf(entity, kind, dict(found).get("charset", "").lower(), top=top)


def _mend_octets(octets: bytes, depth: int) -> bytes:
    if conforms(octets):
        return octets
    entity = take_apart(octets)
    fields = mend_fields(entity.fields, line=body.MAX_LINE)
    return mend_body(Entity(fields, entity.body), depth=depth + 1).octets


def _mend_multipart(entity: Entity, kind: str, boundary: str, depth: int) -> Entity:
    parts = split_parts(entity.body, boundary) if boundary else None
    if parts is None:
        raise MessageRefused("message", "a multipart without its boundary cannot be encoded for the relay")
    mended = [_mend_octets(part, depth) for part in parts.entities]
    if kind == "multipart/signed" and mended != [from_unix(part) for part in parts.entities]:
        raise MessageRefused(
            "message", "is signed, and a signed part would have to be encoded anew; sign 7-bit parts"
        )
    margins = [_margin(text) for text in (parts.preamble, parts.epilogue)]
    rebuilt = type(parts)(parts.boundary, margins[0], parts.entities, margins[1])
    return _relabelled(entity, rebuilt.join(mended), "7bit")


def _margin(text: bytes | None) -> bytes | None:
    """Text before and after the parts, which nobody is shown: dropped where it could not be sent."""
    if text is None:
        return None
    text = to_crlf(text)
    return text if conforms(text) else b""


def _mend_leaf(entity: Entity, kind: str, charset: str, *, top: bool) -> Entity:
    is_text = kind.startswith("text/") or not kind
    is_text = is_text and not charset.startswith(("utf-16", "utf-32", "utf16", "utf32", "ucs"))
    lines = to_crlf(entity.body)
    encoding = entity.get("content-transfer-encoding").lower()
    if conforms(lines) and (is_text or encoding != "binary"):
        return Entity(entity.fields, lines)
    octets = _decoded(entity.body, encoding, kind)
    if is_text:
        octets = to_crlf(octets)
        if not entity.get("content-type"):
            entity = _with_type(entity, octets, top=top)
        quoted, plain = body.quoted_printable(octets), body.base64_lines(octets)
        if len(quoted) <= len(plain):
            return _relabelled(entity, quoted, "quoted-printable")
        return _relabelled(entity, plain, "base64")
    return _relabelled(entity, body.base64_lines(octets), "base64")


def _decoded(octets: bytes, encoding: str, kind: str) -> bytes:
    """What the part means. Raises :class:`MessageRefused` where it cannot be told."""
    if kind.startswith("message/"):
        raise MessageRefused("message", f"a part of type {kind} cannot be encoded (RFC 2046 5.2)")
    if encoding in _AS_IT_IS:
        return octets
    if encoding == "quoted-printable":
        return binascii.a2b_qp(octets)
    if encoding == "base64":
        try:
            return binascii.a2b_base64(octets)
        except binascii.Error:
            raise MessageRefused("message", "a part is marked base64 and is not") from None
    raise MessageRefused(
        "message", "a part has a transfer encoding that is not known and would have to be changed"
    )


def _with_type(entity: Entity, octets: bytes, *, top: bool) -> Entity:
    """Eight-bit text that does not say what it is: UTF-8 if it reads as such, else honestly unknown (RFC 1428)."""
    try:
        octets.decode()
        charset = "utf-8"
    except UnicodeDecodeError:
        charset = "unknown-8bit"
    added = [Field("content-type", f"Content-Type: text/plain; charset={charset}\r\n".encode())]
    if top and not entity.get("mime-version"):
        added.insert(0, Field("mime-version", b"MIME-Version: 1.0\r\n"))
    return Entity((*entity.fields, *added), entity.body)


def _relabelled(entity: Entity, octets: bytes, encoding: str) -> Entity:
    """With ``octets`` as its body. A label stays where it still says the truth (no label means 7bit)."""
    label = entity.get("content-transfer-encoding").lower()
    if label == encoding or (encoding == "7bit" and not label):
        return Entity(entity.fields, octets)
    field = Field("content-transfer-encoding", f"Content-Transfer-Encoding: {encoding}\r\n".encode())
    kept = [other for other in entity.fields if other.name != field.name]
    return Entity((*kept, field), octets)


def _mend_field(field: Field) -> Field:
    name = field.raw.partition(b":")[0].decode().strip()
    value = field.value
    if field.raw.isascii():
        text = headers.folded(name, value)
    elif "=?" in value:
        raise MessageRefused(f"message.{field.name}", "mixes encoded-words with raw octets")
    elif field.name in _ADDRESS_FIELDS:
        text = headers.mailbox_field(name, parse_list(value, field=f"message.{field.name}"))
    elif field.name in _PARAMETER_FIELDS:
        kind, found = parameters(value)
        text = f"{name}: {kind}" + "".join(parameter(key, content) for key, content in found) + "\r\n"
    else:
        text = headers.text_field(name, value)
    mended = Field(field.name, text.encode())
    if mended.longest > body.MAX_LINE:
        raise MessageRefused(f"message.{field.name}", "cannot be folded into lines of 998")
    if not text.isascii() and field.name not in _ADDRESS_FIELDS:
        raise MessageRefused(f"message.{field.name}", "holds raw octets where no encoding is defined")
    return mended
