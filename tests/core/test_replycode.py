import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.core.replycode import enhanced_code, is_policy


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (550, "5.1.1 no such user", "5.1.1"),
        (550, "5.1.1", "5.1.1"),
        (550, " 5.1.1 blank before", "5.1.1"),
        (250, "2.0.0 Ok", "2.0.0"),
        (550, "5.7.606 banned", "5.7.606"),
        (550, "5.1.1: colon", "5.1.1"),
        (550, "4.1.1 another class", None),
        (450, "5.1.1 another class", None),
        (550, "5.1 too short", None),
        (550, "5.1.1.1 an address", None),
        (550, "5.1.1234 too long", None),
        (550, "no such user (5.1.1)", None),
        (550, "#5.1.1 no", None),
        (550, "\u0665.1.1 digits of another script", None),
        (550, "", None),
        (354, "3.0.0 no such class", None),
    ],
)
def test_an_enhanced_code_stands_first_and_has_the_class_of_the_reply(code, text, expected):
    assert enhanced_code(code, text) == expected


@given(st.sampled_from([250, 450, 550]), st.integers(0, 999), st.integers(0, 999), st.text(max_size=20))
def test_every_well_formed_code_is_found(code, subject, detail, rest):
    enhanced = f"{code // 100}.{subject}.{detail}"
    assert enhanced_code(code, f"{enhanced} {rest}") == enhanced
    assert is_policy(enhanced) == (subject == 7)
