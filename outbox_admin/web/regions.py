"""Regions that htmx swaps: the same markup inside the page and alone, with a digest that spares unchanged answers."""

from __future__ import annotations

import hashlib
from typing import Any

from flask import Response, render_template, request
from markupsafe import Markup

_PLACE = "outbox-digest-goes-here"


def region(template: str, **values: Any) -> Markup:
    """The rendered partial; its polling address carries the digest of its own content."""
    text = render_template(f"outbox/partials/{template}", digest=_PLACE, **values)
    return Markup(text.replace(_PLACE, _digest(text)))  # noqa: S704 - our own template, escaped by Jinja already


def answer(template: str, **values: Any) -> Response:
    """204 where the browser has this content already."""
    text = render_template(f"outbox/partials/{template}", digest=_PLACE, **values)
    digest = _digest(text)
    if request.args.get("v") == digest:
        return Response(status=204)
    return Response(text.replace(_PLACE, digest), mimetype="text/html")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
