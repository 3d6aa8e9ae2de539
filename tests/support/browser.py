"""The system's Chromium under Playwright. Nothing here downloads a browser."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NOT_FOUND = "no Chromium found: python3 dev.py test --browser installs it (Debian, root)"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path is not None), None)


@contextmanager
def running_browser(executable: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, headless=True, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
