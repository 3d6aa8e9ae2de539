"""Late rendering: from a folder of templates to a message, and what a broken template comes to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from outbox_admin.core.frozen import Frozen
from outbox_admin.core.message import Attachment, TemplatedMessage
from outbox_admin.delivery.compose import compose
from outbox_admin.delivery.templates import TemplateFault, Templates
from tests.support import mail

KEY = "account.verify"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "subject.txt", "Welcome, {{ name }}\n")
    write(
        tmp_path, "body.txt", "Hello {{ name }},\n{% for line in lines %}\n- {{ line }}\n{% endfor %}\nBye\n"
    )
    write(tmp_path, "body.html", "<p>Hello {{ name }}</p>\n")
    return tmp_path


def write(folder: Path, name: str, text: str, *, key: str = KEY) -> Path:
    path = folder / key / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def late(**options: Any) -> Frozen:
    fields = {
        "template_key": KEY,
        "context": {"name": "Zoë", "lines": ["a", "b"]},
        "to": mail.JANE,
        **options,
    }
    return Frozen.from_bytes(mail.frozen(TemplatedMessage(**fields)).to_bytes())


def fault(folder: Path, **options: Any) -> str:
    with pytest.raises(TemplateFault) as caught:
        Templates(folder).render(late(**options))
    return str(caught.value)


def test_subject_text_and_html_are_rendered(folder: Path) -> None:
    rendered = Templates(folder).render(late())
    assert rendered.subject == "Welcome, Zoë"
    assert rendered.text == "Hello Zoë,\n- a\n- b\nBye\n"
    assert rendered.html == "<p>Hello Zoë</p>\n"
    assert not rendered.late


def test_a_rendered_message_is_sealed_as_such_and_has_the_octets_of_its_first_rendering(folder: Path) -> None:
    rendered = Templates(folder).render(late(attachments=[Attachment("a.txt", b"x")], cc="carl@example.com"))
    again = Frozen.from_bytes(rendered.to_bytes())
    write(folder, "body.txt", "changed")
    assert Templates(folder).render(again) == again
    assert compose(again, recipient=mail.JANE) == compose(rendered, recipient=mail.JANE)
    mail.assert_fit_for_any_relay(compose(again, recipient=mail.JANE).content)


def test_html_is_escaped_and_text_is_not(folder: Path) -> None:
    rendered = Templates(folder).render(late(context={"name": "<b>&", "lines": []}))
    assert rendered.html == "<p>Hello &lt;b&gt;&amp;</p>\n"
    assert rendered.text == "Hello <b>&,\nBye\n"
    assert rendered.subject == "Welcome, <b>&"


@pytest.mark.parametrize(
    ("locale", "subject"),
    [("de", "de"), ("de-AT", "de-AT"), ("de-CH", "de"), ("fr", "Welcome, Zoë")],
)
def test_the_nearest_folder_of_the_locale_is_taken_whole(folder: Path, locale: str, subject: str) -> None:
    for name in ("de", "de-AT"):
        write(folder, f"{name}/subject.txt", name)
        write(folder, f"{name}/body.txt", name)
    rendered = Templates(folder).render(late(locale=locale))
    assert rendered.subject == subject
    assert (rendered.html is None) == (locale != "fr"), "no part comes from another language"


def test_a_repaired_template_is_read_anew(folder: Path) -> None:
    path = write(folder, "body.txt", "{{ missing }}")
    templates = Templates(folder)
    with pytest.raises(TemplateFault):
        templates.render(late())
    path.write_text("repaired")
    os.utime(path, (1, 1))
    assert templates.render(late()).text == "repaired"


def test_a_part_may_be_left_out_but_not_both(folder: Path) -> None:
    (folder / KEY / "body.html").unlink()
    assert Templates(folder).render(late()).html is None
    (folder / KEY / "body.txt").unlink()
    assert "neither" in fault(folder)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("{{ missing }}", "line 1: UndefinedError ('missing' is undefined)"),
        ("a\n{{ name.x.y }}", "line 2: UndefinedError"),
        ("\n\n{% if %}", "line 3: TemplateSyntaxError"),
        ("{{ 1 // 0 }}", "line 1: ZeroDivisionError"),
        ("{{ name.__class__.__mro__ }}", "line 1: SecurityError"),
        ("{% include 'no.txt' %}", "no.txt"),
        ("{{ lines.append(1) }}", "line 1: SecurityError"),
        ("{{ canary + 1 }}", "line 1: TypeError"),
        ("{{ {}[canary] + 1 }}", "line 1: UndefinedError"),
    ],
)
def test_a_broken_template_is_named_with_its_line_without_the_context(
    folder: Path, body: str, expected: str
) -> None:
    write(folder, "body.txt", body)
    text = fault(folder, context={"name": "Zoë", "lines": [], "canary": "c-a-n-a-r-y"})
    assert expected in text
    assert f"{KEY}/body.txt" in text
    assert "c-a-n-a-r-y" not in text


def test_a_missing_template_is_a_fault(folder: Path) -> None:
    assert "no.such" in fault(folder, template_key="no.such")


def test_a_subject_that_became_two_lines_is_the_template_s_fault(folder: Path) -> None:
    assert "subject" in fault(folder, context={"name": "a\r\nBcc: eve@example.com", "lines": []})


def test_no_key_leads_out_of_the_folder(folder: Path) -> None:
    (folder.parent / "subject.txt").write_text("outside")
    hand_made = Frozen(to=(mail.JANE,), template="..", context={})
    with pytest.raises(TemplateFault):
        Templates(folder).render(hand_made)
