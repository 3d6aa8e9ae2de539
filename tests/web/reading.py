"""Reads pages as a parser does, so that tests speak of elements and not of strings."""

from html.parser import HTMLParser
from typing import Any

_INLINE = {"a", "code", "em", "q", "span", "strong", "time"}


class _Collector(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _INLINE:
            self.words.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag not in _INLINE:
            self.words.append(" ")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def elements(page: str, tag: str = "") -> list[tuple[str, dict[str, str]]]:
    """Every start tag with its attributes."""
    collector = _Collector()
    collector.feed(page)
    return [one for one in collector.found if not tag or one[0] == tag]


def text(page: str) -> str:
    """What a reader sees, blanks folded."""
    collector = _Collector()
    collector.feed(page)
    return " ".join("".join(collector.words).split())


def field_of(page: str, name: str) -> str:
    """The value of the first input of that name."""
    return next(found["value"] for _, found in elements(page, "input") if found.get("name") == name)


def links(page: str) -> list[str]:
    return [found["href"] for _, found in elements(page, "a") if "href" in found]


def attribute(page: str, tag: str, name: str, **having: Any) -> str:
    """One attribute of the first such element; `class_` and the like lose the underscore, inner ones become dashes."""
    wanted = {key.rstrip("_").replace("_", "-"): value for key, value in having.items()}
    return next(
        found[name]
        for _, found in elements(page, tag)
        if name in found and all(found.get(key) == value for key, value in wanted.items())
    )
