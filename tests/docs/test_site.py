"""The site in a headless Chromium: every page fits, in light and in dark, complains of nothing and fetches nothing."""

from __future__ import annotations

import threading
from collections.abc import Generator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ..watch.browser import CHROMIUM, Browser, browser
from .conftest import Site

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine (apt-get install chromium)"),
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.xdist_group("documentation"),
]

CLIPPED = """
(() => {
    const scrolls = (one) => {
        for (let box = one.parentElement; box; box = box.parentElement)
            if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return true;
        return false;
    };
    return [...document.querySelectorAll("article *")]
        .filter((one) => one.getBoundingClientRect().right > window.innerWidth + 1 && !scrolls(one))
        .map((one) => `${one.tagName} ${one.textContent.slice(0, 60)}`);
})()
"""
"""What is cut off or has to be scrolled to, but for what scrolls within the page: tables, code and mathematics."""

IMAGES = """
[...document.images].map((one) => [
    one.src,
    one.complete && one.naturalWidth > 0,
    one.hasAttribute("alt") && !/\\.(png|svg)$/.test(one.alt),
]);
"""
"""Each image: whether it is drawn, and has a text that is more than the name of its file."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Site) -> Generator[str]:
    assert site.complaints == ""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site.folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Generator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


def looked_at(page: Browser, address: str) -> list[str]:
    """Return what is wrong with the page that is open."""
    wrong = [f"console: {text}" for text in page.complaints]
    wrong += [f"fetched: {asked}" for asked in page.requests if not asked.startswith((f"{address}/", "data:"))]
    wrong += [f"image: {source}" for source, drawn, described in page.ask(IMAGES) if not (drawn and described)]
    wrong += [f"clipped: {text}" for text in page.ask(CLIPPED)]
    if page.ask("document.documentElement.scrollWidth > window.innerWidth"):
        wrong.append("the page itself scrolls sideways")
    if page.ask("document.querySelectorAll('article h1').length") != 1 and "search.html" not in page.requests[0]:
        wrong.append("not one heading of the first level")
    return wrong


def test_every_page(site: Site, address: str, page: Browser) -> None:
    """Each is loaded once, and shown in both ways."""
    wrong: dict[str, list[str]] = {}
    for name in site.pages:
        page.complaints.clear()
        page.requests.clear()
        page.open(f"{address}/{name}", width=360)
        assert page.ask("document.title")
        found: list[str] = []
        for width, dark in ((360, False), (1280, True)):
            page.show(width, dark=dark)
            page.until("[...document.images].every((one) => one.complete)")  # which may be others in the dark
            found += [one for one in looked_at(page, address) if one not in found]
            red, green, blue = map(int, page.ask("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)")[:3])
            if (red + green + blue < 384) != dark:
                found.append("not in the colours that the reader prefers")
        if found:
            wrong[name] = found
    assert wrong == {}
    assert len(site.pages) > 80


def test_what_is_wrong_would_be_found(page: Browser, address: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!doctype html><article><img src='none.png'><p style='width: 900px'>wide</p>"
        "<script src='http://127.0.0.1:1/elsewhere.js'></script></article>"
    )
    page.complaints.clear()
    page.requests.clear()
    page.open(bad.as_uri(), width=360)
    kinds = {text.split(":")[0] for text in looked_at(page, address)}
    assert kinds == {
        "console",
        "fetched",
        "image",
        "clipped",
        "the page itself scrolls sideways",
        "not one heading of the first level",
    }


def test_mathematics_is_drawn_by_the_browser(page: Browser, address: str) -> None:
    page.open(f"{address}/theory.html")
    widths = page.ask("[...document.querySelectorAll('math')].map((one) => one.getBoundingClientRect().width)")
    assert len(widths) == page.ask("document.querySelectorAll('.math').length") > 50
    assert min(widths) > 3
    assert "\\frac" not in page.ask("document.querySelector('article').innerText")


def test_search_finds_a_word(page: Browser, address: str) -> None:
    page.requests.clear()
    page.open(f"{address}/search.html?q=straggler")
    page.until("document.querySelectorAll('#search-results li').length > 5")
    assert all(asked.startswith((f"{address}/", "data:")) for asked in page.requests)


def test_the_sidebar_leads_to_every_section(page: Browser, address: str) -> None:
    page.open(f"{address}/index.html")
    captions = page.ask("[...document.querySelectorAll('.sidebar-tree .caption-text')].map((one) => one.textContent)")
    assert captions == ["Start", "Guides", "Ideas and theory", "Results", "Reference", "For contributors"]
