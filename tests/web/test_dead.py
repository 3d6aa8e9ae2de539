"""Dead letters: three counts, lists, groups."""

from datetime import timedelta

from tests.web.conftest import Visitor
from tests.web.population import Population
from tests.web.reading import elements, text


def rows(page: str) -> list[str]:
    return [one["id"][2:] for _, one in elements(page, "tr") if one.get("id", "").startswith("m-")]


def test_three_counts_come_first_and_lead_to_their_lists(viewer: Visitor, population: Population) -> None:
    ids = {
        "failed": set(map(str, population.messages(3, "failed"))),
        "rejected": set(map(str, population.messages(2, "rejected"))),
        "uncertain": set(map(str, population.messages(1, "uncertain"))),
    }
    page = viewer.page("/dead-letters")
    assert "Attempts used up 3" in text(page)
    assert "Refused 2" in text(page)
    assert "In doubt 1" in text(page)
    for state, expected in ids.items():
        assert set(rows(viewer.page(f"/dead-letters/list?state={state}"))) == expected


def test_the_list_shows_what_a_decision_needs(operator: Visitor, population: Population) -> None:
    failed = population.message("failed", finished_at=population.now - timedelta(days=1))
    page = operator.page("/dead-letters/list?state=failed")
    heads = [
        part
        for part in ("Message", "Attempts", "Cause", "Failed at", "Payload kept until", "Retry")
        if part in text(page)
    ]
    assert len(heads) == 6
    kept = population.now + timedelta(days=29)
    assert f"until {kept:%d %b %Y}" in text(page)
    assert "8 of 8" in text(page)
    assert f"/messages/{failed}/retry" in page


def test_groups_are_the_largest_first_with_what_can_be_retried(
    operator: Visitor, population: Population
) -> None:
    population.messages(3, "failed", template_key="invoice.notice")
    population.messages(1, "failed", kept=False)
    population.messages(2, "rejected", cause_kind="recipient_rejected", cause_code=550)
    page = operator.page("/dead-letters")
    words = text(page)
    assert words.index("Mailbox full at RCPT (452)") < words.index("Recipient refused at RCPT (550)")
    groups = [one for _, one in elements(page, "form") if one.get("action") == "/retry-plans"]
    assert len(groups) == 1
    assert "invoice.notice account.verify" in words


def test_a_group_leads_to_its_rows_alone(viewer: Visitor, population: Population) -> None:
    wanted = population.message("failed", cause_kind="timeout", cause_phase="data", cause_code=None)
    bare = population.message("failed", cause_kind=None, cause_phase=None, cause_code=None)
    population.message("failed")
    assert rows(viewer.page("/dead-letters/list?state=failed&kind=timeout&phase=data")) == [str(wanted)]
    assert rows(viewer.page("/dead-letters/list?state=failed&kind=none")) == [str(bare)]


def test_pages_of_a_list_are_complete(viewer: Visitor, population: Population) -> None:
    for number in range(60):
        population.message("failed", finished_at=population.now - timedelta(seconds=number // 2))
    seen: list[str] = []
    page = viewer.page("/dead-letters/list?state=failed&size=25")
    while True:
        seen += rows(page)
        following = [one["href"] for _, one in elements(page, "a") if one.get("rel") == "next"]
        if not following:
            break
        page = viewer.page(following[0])
    assert len(seen) == len(set(seen)) == 60


def test_no_dead_letters_is_said(viewer: Visitor) -> None:
    assert "No dead letters." in text(viewer.page("/dead-letters"))
    assert "No dead letters of this kind." in text(viewer.page("/dead-letters/list?state=failed"))


def test_a_viewer_gets_no_buttons(viewer: Visitor, population: Population) -> None:
    population.messages(3, "failed")
    for path in ("/dead-letters", "/dead-letters/list?state=failed", "/messages"):
        assert "Retry group" not in viewer.page(path)
        assert "Retry selected" not in viewer.page(path)
        assert "Retry all" not in viewer.page(path)
