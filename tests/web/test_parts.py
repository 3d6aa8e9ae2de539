"""Passwords, tokens, masks and charts: the console's parts that need no request."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from outbox_admin.db.reads import traffic
from outbox_admin.db.reads.traffic import Bucket
from outbox_admin.db.store import throttle
from outbox_admin.db.store.throttle import Limit
from outbox_admin.web import passwords
from outbox_admin.web.charts import outcomes_chart
from outbox_admin.web.present import mask, moment
from outbox_admin.web.signing import Signer
from tests.support.clock import FakeClock
from tests.web.population import PASSWORD, PASSWORD_HASH, Population

NOW = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)


def test_s24_hashes_are_argon2id_with_the_least_cost_that_is_asked() -> None:
    assert PASSWORD_HASH.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert not passwords.is_weak(PASSWORD_HASH)
    assert passwords.is_weak("$argon2id$v=19$m=4096,t=3,p=1$c2FsdHNhbHQ$aGFzaA")
    assert passwords.is_weak("not a hash")
    assert passwords.hash_password(PASSWORD) != PASSWORD_HASH


def test_only_the_right_password_verifies() -> None:
    assert passwords.verify(PASSWORD, PASSWORD_HASH)
    assert not passwords.verify(PASSWORD + "x", PASSWORD_HASH)
    assert not passwords.verify(PASSWORD, None)
    assert not passwords.verify(PASSWORD, "not a hash")


def test_a_short_password_is_refused() -> None:
    with pytest.raises(ValueError, match="12 characters"):
        passwords.hash_password("elevenchars")


def test_tokens_of_one_purpose_are_worth_nothing_for_another() -> None:
    signer = Signer(b"s" * 32)
    signed, sealed = signer.sign("a", b"data"), signer.seal("a", "jane@example.com")
    assert (signer.check("a", signed), signer.open("a", sealed)) == (b"data", "jane@example.com")
    assert (signer.check("b", signed), signer.open("b", sealed)) == (None, None)
    assert (signer.check("a", signed[:-2]), signer.open("a", sealed[:-2])) == (None, None)
    assert (Signer(b"t" * 32).check("a", signed), signer.check("a", "é"), signer.open("a", "")) == (
        None,
        None,
        None,
    )
    assert "jane" not in sealed
    assert "s" * 32 not in repr(signer)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("jane@example.com", "j•••@example.com"),
        ("jo@example.com", "•••@example.com"),
        ('"<img src=x>"@example.com', "•••@example.com"),
        ("erased:1234", "erased"),
        ("no address", "•••"),
    ],
)
def test_masks(address: str, shown: str) -> None:
    assert mask(address) == shown


def test_moments_show_the_day_where_it_is_not_today() -> None:
    assert moment(NOW - timedelta(minutes=3), now=NOW).text == "02:57:00"
    assert moment(NOW - timedelta(days=1), now=NOW).text == "30 Nov 03:00:00"
    assert moment(NOW - timedelta(days=400), now=NOW).text == "27 Oct 2025 03:00:00"
    assert moment(NOW + timedelta(minutes=3), now=NOW).ago == "in 3 min"


def test_bars_stack_to_the_height_of_their_sum() -> None:
    step = timedelta(minutes=1)
    buckets = [Bucket(NOW + number * step, {}) for number in range(4)]
    buckets[1].counts.update(accepted=30, deferred=10, channel_fault=5, rejected=5)
    chart = outcomes_chart(buckets, step=step)
    assert chart.top == 50
    (bar,) = chart.bars
    assert [part.series for part in bar.parts] == ["sent", "deferred", "rejected"]
    assert sum(part.height for part in bar.parts) == pytest.approx(120)
    assert bar.parts[-1].y == 0
    assert bar.title == "03:01: 30 sent, 15 deferred, 5 rejected or failed"
    assert chart.legend == (
        ("sent", "Sent", 30),
        ("deferred", "Deferred", 15),
        ("rejected", "Rejected or failed", 5),
    )
    assert chart.table == (("03:01", (30, 15, 5)),)


@pytest.mark.parametrize(
    ("peak", "top"), [(1, 5), (6, 10), (11, 15), (50, 50), (99, 100), (2414, 2500), (10_001, 15_000)]
)
def test_the_axis_ends_at_a_round_number(peak: int, top: int) -> None:
    assert outcomes_chart([Bucket(NOW, {"accepted": peak})], step=timedelta(minutes=1)).top == top


def test_hours_are_summed_by_the_database(engine: sa.Engine, clock: FakeClock) -> None:
    population = Population(engine, clock.now().replace(minute=50))
    for ago in (0, 10, 20, 70):
        population.minute(ago, "accepted", 2)
    with engine.connect() as db:
        buckets = traffic.outcomes(
            db, since=population.now - timedelta(hours=4), until=population.now, step=timedelta(hours=1)
        )
    assert [bucket.counts.get("accepted", 0) for bucket in buckets] == [0, 0, 0, 2, 6]
    assert buckets[-1].start == population.now.replace(minute=0, second=0, microsecond=0)


def test_tries_at_the_same_moment_cannot_slip_through_together(engine: sa.Engine, clock: FakeClock) -> None:
    limit, now = Limit(free=5), clock.now()

    def attempt(_: int) -> bool:
        with engine.begin() as db:
            return throttle.charge(db, subject="s", limit=limit, now=now)

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(attempt, range(20))) == 5
    with engine.begin() as db:
        assert throttle.blocked_until(db, subject="s", now=now) == now + timedelta(seconds=30)
        throttle.forgive(db, subject="s")
        assert throttle.blocked_until(db, subject="s", now=now) is None


def test_failures_of_an_hour_ago_are_forgotten(engine: sa.Engine, clock: FakeClock) -> None:
    limit = Limit(free=2)
    with engine.begin() as db:
        assert throttle.charge(db, subject="s", limit=limit, now=clock.now())
        clock.advance(minutes=61)
        assert throttle.charge(db, subject="s", limit=limit, now=clock.now())
        assert throttle.blocked_until(db, subject="s", now=clock.now()) is None
        clock.advance(minutes=61)
        throttle.forget_old(db, now=clock.now())
        assert throttle.charge(db, subject="s", limit=limit, now=clock.now())
