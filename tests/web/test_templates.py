"""What templates and scripts must not hold: the content security policy would refuse it, or it would be unsafe."""

import json
import re
from pathlib import Path

import pytest

from outbox_admin import assets

TEMPLATES = sorted(assets.folder("templates").rglob("*.html"))
FORBIDDEN = (
    (r"\|\s*safe\b", "marked safe"),
    (r"\son[a-z]+=", "inline event"),
    (r"hx-on", "needs eval"),
    (r"hx-vals=['\"]js:", "needs eval"),
    (r"hx-trigger=\"[^\"]*\[", "needs eval"),
    (r"\sstyle=", "inline style"),
    (r"<style", "inline style"),
    (r"<script(?![^>]*\ssrc=)", "inline script"),
    (r"https?://", "another host"),
    (r"autoescape false", "unescaped"),
)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_s34_a_template_holds_nothing_that_the_policy_refuses(template: Path) -> None:
    text = template.read_text()
    assert [why for pattern, why in FORBIDDEN if re.search(pattern, text)] == []


def test_s36_htmx_is_held_short() -> None:
    base = (assets.folder("templates") / "base.html").read_text()
    config = json.loads(re.search(r"name=\"htmx-config\" content='([^']+)'", base)[1])  # type: ignore[index]
    expected = {
        "includeIndicatorStyles": False,
        "allowEval": False,
        "allowScriptTags": False,
        "selfRequestsOnly": True,
        "historyCacheSize": 0,
    }
    assert expected.items() <= config.items()
    assert [(rule["code"], rule["swap"]) for rule in config["responseHandling"]] == [
        ("204", False),
        ("[23]..", True),
        ("422", True),
        ("[45]..", False),
    ]


def test_every_form_that_changes_something_carries_its_token() -> None:
    for template in TEMPLATES:
        for form in re.findall(r'<form[^>]*method="post".*?</form>', template.read_text(), flags=re.S):
            assert 'name="csrf"' in form, template.name


def test_the_script_evaluates_nothing_and_writes_no_markup() -> None:
    script = (assets.folder("static") / "app.js").read_text()
    for word in (
        "eval(",
        "innerHTML",
        "insertAdjacentHTML",
        "document.write",
        "localStorage",
        "new Function",
    ):
        assert word not in script
