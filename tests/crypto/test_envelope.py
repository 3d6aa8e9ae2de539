import hashlib
import os
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outbox_admin.crypto import envelope as sealed_form
from outbox_admin.crypto.envelope import Binding, Bound, check_format, key_id_of, open_sealed, prefixed
from outbox_admin.errors import PayloadUnreadable, Unreadable

MASTER = bytes(range(32))
KID = "0102030405060708"
PLAINTEXT = b'{"v":1,"to":"alice@example.com","subject":"Hi","text":"t","html":"<p>t</p>"}'
BINDING = Binding(
    UUID("00000000-0000-4000-8000-000000000001"), "order-42/confirm", "alice@example.com", "order.confirm"
)


def bound(binding: Binding = BINDING, purpose: str = "outbox-v1") -> Bound:
    return Bound(purpose, binding.fields())


def seal(plaintext: bytes = PLAINTEXT, *, salt: bytes | None = None, nonce: bytes | None = None) -> bytes:
    return sealed_form.seal(
        plaintext,
        master=MASTER,
        kid=KID,
        bound=bound(),
        salt=salt or os.urandom(32),
        nonce=nonce or os.urandom(12),
    )


def reason(envelope: bytes, *, master: bytes = MASTER, bound_to: Bound | None = None) -> Unreadable:
    with pytest.raises(PayloadUnreadable) as caught:
        open_sealed(envelope, master=master, bound=bound_to or bound())
    return caught.value.reason


def test_s05_the_test_vector_is_reproduced_byte_for_byte():
    envelope = seal(salt=b"\xaa" * 32, nonce=b"\xbb" * 12)
    assert envelope[:60].hex() == ("4f425845010100000102030405060708" + "aa" * 32 + "bb" * 12)
    assert envelope[60:92].hex() == "7898ad127a295327a84cc5d3adfdbbfbe56c6bdd17fe45c74cfd797ec763ccda"
    assert envelope[-16:].hex() == "fccbef13450a80afbd4724106837f288"
    assert len(envelope) == 184
    assert (
        hashlib.sha256(envelope).hexdigest()
        == "3437c149ff8d81b57296316a868d5b3244318aff97eabc70e5fba7878d474229"
    )
    assert open_sealed(envelope, master=MASTER, bound=bound()) == PLAINTEXT


@settings(deadline=None)
@given(plaintext=st.binary(max_size=5000), texts=st.tuples(*[st.text(max_size=60)] * 3), row=st.uuids())
def test_what_was_sealed_opens_for_the_same_row_and_is_108_bytes_longer(plaintext, texts, row):
    tied = bound(Binding(row, *texts))
    envelope = sealed_form.seal(
        plaintext, master=MASTER, kid=KID, bound=tied, salt=os.urandom(32), nonce=os.urandom(12)
    )
    assert len(envelope) == len(plaintext) + 108
    assert open_sealed(envelope, master=MASTER, bound=tied) == plaintext


def test_s04_no_envelope_with_one_flipped_bit_opens():
    envelope = seal(salt=b"\xaa" * 32, nonce=b"\xbb" * 12)
    for bit in range(len(envelope) * 8):
        altered = bytearray(envelope)
        altered[bit // 8] ^= 1 << bit % 8
        assert reason(bytes(altered)) in Unreadable


@settings(deadline=None)
@given(data=st.data())
def test_no_cut_lengthened_or_spliced_envelope_opens(data):
    envelope, other = seal(), seal(b"another text")
    cut = data.draw(st.integers(0, len(envelope) - 1))
    assert reason(envelope[:cut]) in Unreadable
    assert reason(envelope + data.draw(st.binary(min_size=1, max_size=40))) in Unreadable
    if 16 < cut < len(other):
        assert reason(envelope[:cut] + other[cut:]) in Unreadable


@pytest.mark.parametrize(
    "changed",
    [
        {"row_id": uuid4()},
        {"idempotency_key": "order-43/confirm"},
        {"recipient": "mallory@example.com"},
        {"recipient": "Alice@example.com"},
        {"template_key": "order.cancel"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_s03_a_changed_column_keeps_the_payload_shut(changed):
    assert reason(seal(), bound_to=bound(replace(BINDING, **changed))) is Unreadable.ALTERED


def test_s02_the_payload_of_another_row_stays_shut():
    ours, theirs = bound(), bound(Binding(uuid4(), "order-43/confirm", "bob@example.com", "order.confirm"))
    for_them = sealed_form.seal(
        b"theirs", master=MASTER, kid=KID, bound=theirs, salt=b"\1" * 32, nonce=b"\2" * 12
    )
    assert reason(for_them, bound_to=ours) is Unreadable.ALTERED
    assert reason(seal(), bound_to=theirs) is Unreadable.ALTERED


def test_text_moved_from_one_column_to_the_next_is_noticed():
    tied = bound(replace(BINDING, idempotency_key="order-42/confirma", recipient="lice@example.com"))
    assert reason(seal(), bound_to=tied) is Unreadable.ALTERED


def test_a_payload_does_not_open_as_something_sealed_for_another_purpose():
    assert reason(seal(), bound_to=bound(purpose="error-v1")) is Unreadable.WRONG_MATERIAL


def test_other_material_under_the_same_id_is_told_from_an_altered_payload():
    assert reason(seal(), master=bytes(32)) is Unreadable.WRONG_MATERIAL
    altered = bytearray(seal())
    altered[-1] ^= 1
    assert reason(bytes(altered)) is Unreadable.ALTERED


@pytest.mark.parametrize(
    ("envelope", "expected"),
    [
        (b"", Unreadable.MALFORMED),
        (b"OBXE", Unreadable.MALFORMED),
        (b"obxe\1\1" + bytes(200), Unreadable.MALFORMED),
        (b"OBXE\1\1" + bytes(101), Unreadable.MALFORMED),
        (b"OBXE\0\1" + bytes(200), Unreadable.MALFORMED),
        (b"OBXE\1\0" + bytes(200), Unreadable.MALFORMED),
        (b"OBXE\2\1", Unreadable.NEWER_FORMAT),
        (b"OBXE\1\2" + bytes(200), Unreadable.NEWER_FORMAT),
        (b"OBXE\1\1\0\1" + bytes(200), Unreadable.NEWER_FORMAT),
        (b'{"v":1,"to":"alice@example.com"}', Unreadable.MALFORMED),
    ],
)
def test_the_header_tells_nonsense_from_a_later_format(envelope, expected):
    assert reason(envelope) is expected
    with pytest.raises(PayloadUnreadable):
        check_format(envelope)


@given(st.binary(max_size=300))
def test_any_bytes_are_unreadable_and_nothing_else(data):
    assert reason(data) in Unreadable
    assert reason(b"OBXE\1\1\0\0" + data) in Unreadable


def test_s06_ten_thousand_seals_repeat_no_salt_nonce_or_ciphertext():
    envelopes = [seal() for _ in range(10_000)]
    for part in (slice(16, 48), slice(48, 60), slice(92, None)):
        assert len({envelope[part] for envelope in envelopes}) == 10_000


def test_the_key_id_is_read_from_the_front():
    assert key_id_of(seal()) == KID
    assert key_id_of(seal()[:91]) is None
    assert key_id_of(b"OBXE\2" + bytes(200)) is None
    assert key_id_of(b"something else altogether" * 10) is None


def test_a_binding_shows_no_recipient_when_printed():
    assert repr(BINDING) == "Binding(row_id=00000000-0000-4000-8000-000000000001)"


@given(st.lists(st.binary(max_size=8)), st.lists(st.binary(max_size=8)))
def test_two_lists_of_parts_never_give_the_same_bytes(one, other):
    assert (prefixed(*one) == prefixed(*other)) == (one == other)


def test_the_message_of_an_unreadable_payload_holds_nothing_of_it():
    with pytest.raises(PayloadUnreadable) as caught:
        open_sealed(seal()[:-1], master=MASTER, bound=bound())
    assert str(caught.value) == "altered"
    assert caught.value.__cause__ is None
