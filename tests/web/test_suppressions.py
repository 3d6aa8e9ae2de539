"""The suppression list: for admins, and no address in any address bar."""

import sqlalchemy as sa

from outbox_admin.db import schema
from outbox_admin.db.store import suppressions as store
from tests.web.conftest import Visitor
from tests.web.population import Population
from tests.web.reading import field_of, links, text


def suppress(population: Population, *keys: str) -> None:
    with population.engine.begin() as db:
        store.add_many(db, dict.fromkeys(keys, "bounced"), who="alice", now=population.now)


def listed(population: Population) -> list[str]:
    with population.engine.connect() as db:
        return sorted(db.execute(sa.select(schema.suppression.c.recipient_key)).scalars())


def test_an_address_is_suppressed_by_its_comparable_form_and_audited_without_it(
    admin: Visitor, population: Population
) -> None:
    answer = admin.post("/suppressions", {"address": " Jane@EXAMPLE.com ", "reason": "asked us to stop"})
    assert answer.status_code == 303
    assert "jane" not in answer.headers["Location"].lower()
    assert listed(population) == ["jane@example.com"]
    page = text(admin.page(answer.headers["Location"]))
    assert "The address is suppressed: nothing is sent to it." in page
    assert "j•••@example.com asked us to stop by admin" in page
    assert "jane@" not in page
    again = admin.post("/suppressions", {"address": "jane@example.com", "reason": "twice"})
    assert "It was on the list already." in text(admin.page(again.headers["Location"]))
    entries = population.audits("suppress")
    assert [entry.result for entry in entries] == ["done", "refused"]
    assert "jane" not in "".join(map(repr, entries))


def test_what_is_no_address_or_lacks_a_reason_is_refused(admin: Visitor, population: Population) -> None:
    for form, said in (
        ({"address": "no address", "reason": "x"}, "The address"),
        ({"address": "jane@example.com", "reason": " "}, "The reason has 1 to 500 characters"),
    ):
        answer = admin.post("/suppressions", form)
        assert answer.status_code == 422
        assert said in text(answer.get_data(as_text=True))
    assert (listed(population), population.audits("suppress")) == ([], [])


def test_a_whole_address_is_found_and_removed_on_a_question_page(
    admin: Visitor, population: Population
) -> None:
    suppress(population, "jane@example.com", "john@example.com")
    found = admin.post("/suppressions/search", {"q": "JANE@example.com"}).headers["Location"]
    assert "jane" not in found.lower()
    page = admin.page(found)
    assert "address j•••@example.com" in text(page)
    (url,) = [url for url in links(page) if "/suppressions/remove" in url]
    question = admin.page(url)
    assert "Mail this address again?" in text(question)
    token = field_of(question, "rq")
    assert admin.post("/suppressions/remove", {"rq": token}).status_code == 303
    assert listed(population) == ["john@example.com"]
    again = admin.post("/suppressions/remove", {"rq": token})
    assert again.status_code == 409
    assert admin.get(url).status_code == 404
    assert [entry.result for entry in population.audits("unsuppress")] == ["done", "refused"]
    gone = admin.post("/suppressions/search", {"q": "jane@example.com"}).headers["Location"]
    assert "It is not on the list: mail to it goes out." in text(admin.page(gone))
    bad = admin.post("/suppressions/search", {"q": "jane"}).headers["Location"]
    assert "That is not a valid address." in text(admin.page(bad))


def test_a_forged_token_means_no_address(admin: Visitor, population: Population) -> None:
    suppress(population, "jane@example.com")
    assert admin.get("/suppressions/remove?rq=amFuZUBleGFtcGxlLmNvbQ").status_code == 404
    assert admin.post("/suppressions/remove", {"rq": "jane@example.com"}).status_code == 409
    assert listed(population) == ["jane@example.com"]


def test_a_long_list_goes_on_page_by_page(admin: Visitor, population: Population) -> None:
    suppress(population, *(f"a{number:03}@example.com" for number in range(205)))
    path, seen = "/suppressions", 0
    for _ in range(3):
        page = admin.page(path)
        seen += page.count("•••@example.com</th>")
        assert "205 on the list" in text(page)
        path = next((url for url in links(page) if "after=" in url), "")
        assert "a0" not in path.partition("after=")[0]
    assert (seen, path) == (205, "")


def test_an_empty_list_says_so_and_an_operator_does_not_get_there(admin: Visitor, operator: Visitor) -> None:
    assert "No address is suppressed." in text(admin.page("/suppressions"))
    assert "/suppressions" in links(admin.page("/"))
    assert "/suppressions" not in links(operator.page("/"))
    assert operator.get("/suppressions").status_code == 403
