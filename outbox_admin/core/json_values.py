"""What a template's context may hold: JSON values, nothing that changes its meaning on the way through JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from outbox_admin.core.checks import check_text
from outbox_admin.errors import MessageRefused

MAX_DEPTH = 50
MAX_INTEGER = 2**63 - 1  #: what every JSON reader keeps exactly enough


def json_copy(context: Mapping[str, Any], *, field: str = "context") -> dict[str, Any]:
    """The context as plain dicts and lists.

    Raises :class:`MessageRefused` with the path: ``context.order.lines[2]``.
    """
    if not isinstance(context, Mapping):
        raise MessageRefused(field, "is a mapping with str keys")
    return _object(context, field, 0)


def _object(value: Mapping[Any, Any], path: str, depth: int) -> dict[str, Any]:
    copy = {}
    for key, item in value.items():
        if type(key) is not str:
            raise MessageRefused(path, f"a key is a str, not {type(key).__name__}")
        check_text(key, field=path)
        copy[key] = _value(item, f"{path}.{key}" if key.isidentifier() else f"{path}[…]", depth + 1)
    return copy


def _value(value: Any, path: str, depth: int) -> Any:
    """Exact types only: a subclass (markup, an enum) would come back from JSON as something else."""
    if depth > MAX_DEPTH:
        raise MessageRefused(path, f"is nested more than {MAX_DEPTH} levels deep")
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        check_text(value, field=path)
        return value
    if kind is int and abs(value) <= MAX_INTEGER:
        return value
    if kind is float and math.isfinite(value):
        return value
    if kind is dict:
        return _object(value, path, depth)
    if kind is list or kind is tuple:
        return [_value(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
    raise MessageRefused(path, f"is no JSON value ({kind.__name__}); give text, a number, a list or a dict")
