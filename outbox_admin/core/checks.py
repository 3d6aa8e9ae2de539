"""What a message may hold. Asked at enqueue, and again before octets are written: old rows and other producers exist.

Refused, never cleaned: a line break in a subject is a bug or an attack of somebody's, and hiding it helps neither.
No reason repeats the value: it may be a secret, and reasons are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from outbox_admin.core import headers
from outbox_admin.core.message import Attachment
from outbox_admin.errors import MessageRefused

MAX_SUBJECT = 5_000  #: characters
MAX_HEADERS = 100
MAX_VALUE = 16_000  #: characters of an own field
MAX_WORD = 900  #: characters without a blank: such a word cannot be folded, and a line ends at 998
MAX_ATTACHMENTS = 200

_FIELD_NAME = re.compile(r"[!-9;-~]{1,76}")
_MESSAGE_ID = re.compile(r"<[!-;=?A-~]+@[!-;=?A-~]+>")
_CONTENT_ID = re.compile(r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~.@]{1,200}")
_WORD = r"[A-Za-z0-9!#$&\-^_.+]{1,127}"
_VALUE = r'(?:[A-Za-z0-9!#$%&\'*+\-.^_`{|}~]+|"[ !#-\[\]-~]*")'
_CONTENT_TYPE = re.compile(rf"{_WORD}/{_WORD}(?:; ?{_WORD}={_VALUE})*")
_OWN_PARAMETER = re.compile(r"; ?(?:name|boundary)[*=]", re.IGNORECASE)

_SET_ELSEWHERE = re.compile(
    r"from|sender|to|cc|bcc|subject|reply-to|date|message-id|received|return-path|(?:mime|content|dkim|resent)-.*",
    re.IGNORECASE,
)


def check_subject(subject: str | None) -> str:
    """The subject exactly as given. Raises :class:`MessageRefused`."""
    subject = _text(subject, field="subject", limit=MAX_SUBJECT)
    _one_line(subject, field="subject")
    return subject


def check_body(text: str, *, field: str, nul: bool) -> None:
    """``nul``: whether U+0000 may stand in it (it travels encoded; at enqueue it is refused as a bug)."""
    _text(text, field=field)
    if not nul and "\0" in text:
        raise MessageRefused(field, "the text holds NUL (U+0000)")


def check_headers(fields: Sequence[tuple[str, str]]) -> None:
    """Fields of the producer's own. Raises :class:`MessageRefused` naming ``headers[X-Tag]``."""
    if len(fields) > MAX_HEADERS:
        raise MessageRefused("headers", f"at most {MAX_HEADERS} fields")
    seen: set[str] = set()
    for name, value in fields:
        if not matches(_FIELD_NAME, name):
            raise MessageRefused(
                "headers", "a field name is 1 to 76 visible ASCII characters without a colon"
            )
        field = f"headers[{name}]"
        if _SET_ELSEWHERE.fullmatch(name):
            raise MessageRefused(field, "is set by the message itself and cannot be given here")
        if name.lower() in seen:
            raise MessageRefused(field, "is given twice")
        seen.add(name.lower())
        _check_value(name.lower(), value, field=field)


def check_message_id(message_id: str, *, field: str) -> None:
    """``<left@right>`` of visible ASCII (RFC 5322 3.6.4). Raises :class:`MessageRefused`."""
    if len(message_id) > MAX_WORD or not _MESSAGE_ID.fullmatch(message_id):
        raise MessageRefused(field, "an identifier is <left@right> in visible ASCII, without blanks")


def check_attachments(attachments: Sequence[Attachment]) -> None:
    """Names, types and inline ids. Raises :class:`MessageRefused` naming ``attachments[0].name``."""
    if len(attachments) > MAX_ATTACHMENTS:
        raise MessageRefused("attachments", f"at most {MAX_ATTACHMENTS}")
    inline_ids: set[str] = set()
    for index, attachment in enumerate(attachments):
        field = f"attachments[{index}]"
        _check_kinds(attachment, field=field)
        _check_file_name(attachment.name, field=f"{field}.name")
        _check_content_type(attachment.content_type, field=f"{field}.content_type")
        if (inline_id := attachment.inline_id) is not None:
            _check_inline_id(inline_id, field=f"{field}.inline_id")
            if inline_id in inline_ids:
                raise MessageRefused(f"{field}.inline_id", "is used twice")
            inline_ids.add(inline_id)


def matches(pattern: re.Pattern[str], value: object) -> bool:
    """True for text that the pattern takes whole; types promise str, callers do not."""
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def check_text(value: str, *, field: str) -> None:
    """Any str that can be written as UTF-8. Raises :class:`MessageRefused` for half a surrogate pair."""
    _text(value, field=field)


def _text(value: str | None, *, field: str, limit: int | None = None) -> str:
    if not isinstance(value, str):
        raise MessageRefused(field, "is a str")
    if limit is not None and len(value) > limit:
        raise MessageRefused(field, f"has more than {limit} characters")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            # Not chained: that exception carries the whole text.
            raise MessageRefused(field, "holds half a surrogate pair, which has no UTF-8 form") from None
    return value


def _one_line(value: str, *, field: str) -> None:
    if "\n" in value or "\r" in value or "\0" in value:
        raise MessageRefused(field, "holds a line break or NUL, which no header field can carry")


def _check_value(name: str, value: str, *, field: str) -> None:
    _one_line(_text(value, field=field, limit=MAX_VALUE), field=field)
    if headers.is_structured(name):
        if not value.isascii() or not value.isprintable():
            raise MessageRefused(field, "takes printable ASCII only (percent-encode a URL)")
        if name in ("in-reply-to", "references"):
            _check_ids(value.split(), field=field)
    if max(map(len, value.split(" "))) > MAX_WORD and value.isascii():
        raise MessageRefused(
            field, f"holds more than {MAX_WORD} characters without a blank, which fit on no line"
        )


def _check_ids(ids: Iterable[str], *, field: str) -> None:
    empty = True
    for message_id in ids:
        check_message_id(message_id, field=field)
        empty = False
    if empty:
        raise MessageRefused(field, "names no identifier")


def _check_kinds(attachment: object, *, field: str) -> None:
    if not isinstance(attachment, Attachment) or not isinstance(attachment.content, bytes):
        raise MessageRefused(field, "an attachment is an Attachment with content of type bytes")


def _check_file_name(name: str, *, field: str) -> None:
    _text(name, field=field)
    if not name.strip() or not name.isprintable() or len(name.encode()) > 255:
        raise MessageRefused(field, "a file name is 1 to 255 octets without control or invisible characters")
    if "/" in name or "\\" in name or name in (".", ".."):
        raise MessageRefused(field, "a file name, not a path")


def _check_content_type(content_type: str, *, field: str) -> None:
    if not matches(_CONTENT_TYPE, content_type) or len(content_type) > 200:
        raise MessageRefused(field, "is type/subtype, with parameters as in text/csv; charset=utf-8")
    if content_type.lower().startswith(("multipart/", "message/")):
        raise MessageRefused(field, "multipart and message types cannot be attached; use Message.from_mime")
    if _OWN_PARAMETER.search(content_type):
        raise MessageRefused(field, "the parameters name and boundary are set from the attachment")


def _check_inline_id(inline_id: str, *, field: str) -> None:
    if not matches(_CONTENT_ID, inline_id):
        raise MessageRefused(field, "letters, digits and -._@ only, without angle brackets")
