"""When a connection is left before the relay ends it."""

from outbox_admin.delivery.stamina import Stamina


def ended(stamina: Stamina, uses: int, *, idle: float = 0.1, now: float = 100.0) -> None:
    stamina.note_end(uses=uses, idle=idle, now=now)


def test_one_end_teaches_nothing() -> None:
    stamina = Stamina()
    ended(stamina, 3)
    assert not stamina.is_spent(uses=3, now=100)


def test_two_ends_at_the_same_number_teach_it() -> None:
    stamina = Stamina()
    ended(stamina, 3)
    ended(stamina, 3)
    assert not stamina.is_spent(uses=2, now=100)
    assert stamina.is_spent(uses=3, now=100)


def test_two_ends_at_different_numbers_teach_nothing() -> None:
    stamina = Stamina()
    ended(stamina, 3)
    ended(stamina, 7)
    assert not stamina.is_spent(uses=7, now=100)


def test_a_connection_that_idled_was_not_ended_for_its_number() -> None:
    stamina = Stamina()
    ended(stamina, 3, idle=10)
    ended(stamina, 3, idle=10)
    assert not stamina.is_spent(uses=3, now=100)


def test_what_was_learned_is_tried_anew_after_ten_minutes() -> None:
    stamina = Stamina()
    ended(stamina, 1, now=100)
    ended(stamina, 1, now=100)
    assert stamina.is_spent(uses=1, now=699)
    assert not stamina.is_spent(uses=1, now=700)
