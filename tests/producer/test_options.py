"""Options that make no sense are refused by name, before anything is written."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from outbox_admin.errors import MessageRefused
from outbox_admin.producer.options import Options, check_text

SOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("priority", -1),
        ("priority", 3),
        ("priority", True),
        ("priority", "1"),
        ("max_attempts", 0),
        ("max_attempts", 101),
        ("max_attempts", 2.0),
        ("on_unknown", "drop"),
        ("template_key", "x" * 201),
        ("template_key", "a\r\nb"),
        ("supersede_key", ""),
        ("correlation_id", "a\x00"),
        ("correlation_id", 7),
        ("not_before", "tomorrow"),
        ("not_before", datetime(2026, 12, 1, 12)),  # noqa: DTZ001
        ("expires_at", datetime(2026, 12, 1, 12)),  # noqa: DTZ001
    ],
)
def test_a_value_out_of_bounds_names_its_option(option: str, value: object) -> None:
    with pytest.raises(MessageRefused) as refusal:
        Options(**{option: value}).check()  # type: ignore[arg-type]
    assert refusal.value.field == option


@pytest.mark.parametrize("expires_at", [SOON, SOON - timedelta(seconds=1)])
def test_a_message_that_expires_before_it_may_be_sent_is_refused(expires_at: datetime) -> None:
    with pytest.raises(MessageRefused) as refusal:
        Options(not_before=SOON, expires_at=expires_at).check()
    assert refusal.value.field == "not_before"


def test_a_naive_time_is_told_its_cure() -> None:
    with pytest.raises(MessageRefused, match=r"datetime\.now\(UTC\)"):
        Options(not_before=datetime(2026, 12, 1)).check()  # noqa: DTZ001


def test_a_time_at_the_edge_of_the_calendar_is_refused() -> None:
    edge = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))
    with pytest.raises(MessageRefused) as refusal:
        Options(not_before=edge).check()
    assert refusal.value.field == "not_before"


def test_everything_within_bounds_passes() -> None:
    Options(
        template_key="order.confirm",
        priority=2,
        not_before=SOON,
        expires_at=SOON + timedelta(seconds=1),
        supersede_key="é" * 200,
        on_unknown="hold",
        max_attempts=100,
        correlation_id="req-1",
    ).check()


def test_a_refusal_never_repeats_the_text() -> None:
    with pytest.raises(MessageRefused) as refusal:
        check_text("secret\x00", field="idempotency_key")
    assert "secret" not in str(refusal.value)
