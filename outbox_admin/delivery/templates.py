"""Late rendering: a template folder and a context to subject, text and HTML.

``<folder>/<key>/subject.txt``, ``body.txt``, ``body.html``; a locale picks ``<key>/<locale>/`` or ``<key>/<language>/``
as a whole where that folder has a subject. A missing variable is a fault, never an empty place; HTML is escaped.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import (
    FileSystemLoader,
    StrictUndefined,
    Template,
    TemplateNotFound,
    TemplateSyntaxError,
    UndefinedError,
)
from jinja2.sandbox import ImmutableSandboxedEnvironment

from outbox_admin.core import mime_writer
from outbox_admin.delivery.faults import TemplateFault
from outbox_admin.errors import MessageRefused

if TYPE_CHECKING:
    from outbox_admin.core.frozen import Frozen

_IS_UNDEFINED = re.compile(r"'[A-Za-z_]\w*' is undefined")


class Templates:
    """A folder of templates; changed files are read anew. Safe to share between threads."""

    def __init__(self, folder: Path | str) -> None:
        self._environment = ImmutableSandboxedEnvironment(
            loader=FileSystemLoader(folder),
            undefined=StrictUndefined,
            autoescape=lambda name: name is not None and name.endswith(".html"),
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )

    def render(self, frozen: Frozen) -> Frozen:
        """The message with its text. Raises :class:`TemplateFault`."""
        if frozen.template is None:
            return frozen
        folder = self._folder(frozen.template, frozen.locale)
        context = frozen.context or {}
        subject = self._text(f"{folder}/subject.txt", context)
        rendered = frozen.rendered(
            subject=(subject or "").strip(),
            text=self._text(f"{folder}/body.txt", context),
            html=self._text(f"{folder}/body.html", context),
        )
        _check(rendered, folder)
        return rendered

    def _folder(self, key: str, locale: str | None) -> str:
        for folder in _folders(key, locale):
            if self._template(f"{folder}/subject.txt") is not None:
                return folder
        raise TemplateFault(f"template {key}: no subject.txt in its folder")

    def _template(self, name: str) -> Template | None:
        try:
            return self._environment.get_template(name)
        except TemplateNotFound:
            return None
        except Exception as error:  # noqa: BLE001 - whatever a broken file makes of the parser
            raise TemplateFault(_account(name, error)) from None

    def _text(self, name: str, context: dict[str, object]) -> str | None:
        template = self._template(name)
        if template is None:
            return None
        try:
            return template.render(context)
        except Exception as error:  # noqa: BLE001 - a template is a program: any fault is its own
            raise TemplateFault(_account(name, error)) from None


def _folders(key: str, locale: str | None) -> list[str]:
    if not locale:
        return [key]
    language = locale.replace("_", "-").partition("-")[0]
    return [f"{key}/{locale}", *([f"{key}/{language}"] if language != locale else []), key]


def _check(rendered: Frozen, folder: str) -> None:
    """What the text made of the message is the template's fault, so it must not reject the row."""
    if rendered.text is None and rendered.html is None:
        raise TemplateFault(f"template {folder}: neither body.txt nor body.html")
    if rendered.sender is None or rendered.date is None or rendered.message_id is None:
        return
    try:
        mime_writer.write(rendered)
    except MessageRefused as error:
        raise TemplateFault(f"template {folder}: {error}") from None


def _account(name: str, error: Exception) -> str:
    """``template account.verify/body.html line 3: UndefinedError ('name' is undefined)``."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename.endswith(name)]
    line = getattr(error, "lineno", None) or (lines[-1] if lines else None)
    where = f" line {line}" if line else ""
    return f"template {name}{where}: {type(error).__name__}{_reason(error)}"


def _reason(error: Exception) -> str:
    """What an exception says only where that comes from the template: other texts may quote the context."""
    if isinstance(error, TemplateSyntaxError | TemplateNotFound):
        return f" ({error.message})"
    if isinstance(error, UndefinedError) and _IS_UNDEFINED.fullmatch(error.message or ""):
        return f" ({error.message})"
    return ""
