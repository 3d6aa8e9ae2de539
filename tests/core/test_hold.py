"""How a hold's value is spelled: whatever an operator types, it meets the recipients that are meant."""

from __future__ import annotations

import pytest

from outbox_admin.core.hold import Scope, reason_of, value_of
from outbox_admin.errors import MessageRefused


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("example.com", "example.com"),
        ("Example.COM", "example.com"),
        ("  example.com ", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        (".example.com", ".example.com"),
        (" .Bücher.Example", ".xn--bcher-kva.example"),
    ],
)
def test_a_domain_is_stored_as_recipients_are_compared(given: str, value: str) -> None:
    assert value_of(Scope.DOMAIN, given) == value


@pytest.mark.parametrize(
    "given",
    [
        "",
        ".",
        "..example.com",
        "jane@example.com",
        "example.com.",
        "*.example.com",
        "exa mple.com",
        "%",
        "a_b.example",
    ],
)
def test_what_is_no_domain_is_refused_and_the_field_named(given: str) -> None:
    with pytest.raises(MessageRefused, match="domain"):
        value_of(Scope.DOMAIN, given)


def test_a_template_is_taken_as_it_is() -> None:
    assert value_of(Scope.TEMPLATE, "Invoice.Notice 2") == "Invoice.Notice 2"


@pytest.mark.parametrize(
    ("scope", "given"),
    [(Scope.TEMPLATE, ""), (Scope.TEMPLATE, "x" * 201), (Scope.TEMPLATE, "a\nb"), (Scope.EVERYTHING, "x")],
)
def test_a_value_that_cannot_be_meant_is_refused(scope: Scope, given: str) -> None:
    with pytest.raises(MessageRefused) as refused:
        value_of(scope, given)
    assert refused.value.field == scope


@pytest.mark.parametrize("given", ["", "   ", "x" * 501, "two\nlines", "half \ud800"])
def test_a_reason_is_one_line_of_text(given: str) -> None:
    with pytest.raises(MessageRefused, match="reason"):
        reason_of(given)
