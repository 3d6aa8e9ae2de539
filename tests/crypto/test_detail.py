import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.crypto.detail import clean


def test_controls_bidi_marks_and_line_ends_become_single_blanks():
    raw = "550 no\x00\x1b[31mred\x1b[0m \u202eevil\u2066 a\r\nb\u2028c\ud83d d\x9b31m"
    assert clean(raw) == "550 no [31mred [0m evil a b c d 31m"


def test_text_in_other_scripts_is_kept():
    assert clean("Empfänger unbekannt · 宛先不明") == "Empfänger unbekannt · 宛先不明"


@given(st.text(max_size=3000))
def test_a_detail_is_one_short_printable_line(text):
    cleaned = clean(text)
    assert len(cleaned) <= 500
    assert all(unicodedata.category(sign)[0] != "C" for sign in cleaned)
    assert cleaned.encode().decode() == cleaned
    assert len(cleaned.splitlines()) <= 1


def test_ten_mebibytes_cost_no_more_than_their_beginning():
    assert clean("x" * 10_485_760) == "x" * 500
