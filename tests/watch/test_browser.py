"""The page in a headless Chromium: it renders, follows a run, zooms, and complains of nothing."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from erasurehead.watch import write_report
from erasurehead.watch._server import serving
from erasurehead.watch._watch import Watch

from .browser import CHROMIUM, Browser, browser
from .conftest import trained
from .test_report import HOSTILE

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine (apt-get install chromium)"),
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.xdist_group("browser"),
]

DRAWN = "document.querySelectorAll('#panels section').length > 0"
PART = "document.getElementById('part').textContent"
STATUS = "document.getElementById('status').textContent"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Generator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(autouse=True)
def quiet(page: Browser) -> Generator[None]:
    """Whatever a test does, the page says nothing on its console."""
    page.complaints.clear()
    yield
    assert page.complaints == []


def shown(page: Browser, path: Path, **how: Any) -> None:
    page.open(path.as_uri(), **how)
    page.until(DRAWN)


def dark_pixels(page: Browser) -> int:
    """Return how many cells of a coarse grid over the figure of the workers are not of the background's colour."""
    return int(
        page.ask(
            """(() => {
                const canvas = document.querySelector(".lanes canvas"), pen = canvas.getContext("2d");
                const { data } = pen.getImageData(0, 0, canvas.width, canvas.height), seen = new Set();
                for (let i = 0; i < data.length; i += 4 * 37) seen.add(`${data[i]} ${data[i + 1]} ${data[i + 2]}`);
                return seen.size;
            })()"""
        )
    )


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 360])
def test_a_report_is_drawn(page: Browser, run_folder: Path, tmp_path: Path, dark: bool, width: int) -> None:
    shown(page, write_report(run_folder, tmp_path / "run.html"), width=width, dark=dark)
    assert page.ask(STATUS).startswith("finished · 30 of 30 steps in ")
    assert page.ask("document.querySelectorAll('#cells span').length") == 12
    assert page.ask("document.querySelectorAll('#panels svg').length") == 6
    assert page.ask(
        "[...document.querySelectorAll('#panels svg')].every((svg) => svg.viewBox.baseVal.width === svg.clientWidth)"
    )
    assert page.ask("[...document.querySelectorAll('#marks td')].map((cell) => cell.textContent)")[1] == "joined"
    assert page.ask("document.documentElement.scrollWidth <= window.innerWidth")  # nothing has to be scrolled sideways
    assert dark_pixels(page) >= 4
    background = page.ask("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)")


def test_zoom_by_keys_buttons_and_pointer(page: Browser, run_folder: Path, tmp_path: Path) -> None:
    shown(page, write_report(run_folder, tmp_path / "run.html"))
    whole = page.ask(PART)
    assert whole.startswith("0 to ")
    page.press("+")
    closer = page.until(f"{PART} !== {json.dumps(whole)} && {PART}")
    page.press("ArrowRight")
    page.until(f"{PART} !== {json.dumps(closer)}")
    page.press("0")
    page.until(f"{PART} === {json.dumps(whole)}")
    page.ask("document.getElementById('closer').click()")
    page.until(f"{PART} === {json.dumps(closer)}")
    page.press("0")
    left, top, wide, high = page.ask(
        "(() => { const box = document.querySelector('.lanes svg').getBoundingClientRect();"
        " return [box.left, box.top, box.width, box.height]; })()"
    )
    page.drag((left + wide * 0.3, top + high * 0.2), (left + wide * 0.5, top + high * 0.6))
    assert ", workers 2 to 7" in page.until(f"{PART}.includes('workers') && {PART}")
    page.press("0")
    page.until(f"{PART} === {json.dumps(whole)}")


def test_log_axes_can_be_turned_off(page: Browser, run_folder: Path, tmp_path: Path) -> None:
    shown(page, write_report(run_folder, tmp_path / "run.html"))
    curve = "document.querySelector('#panels path[stroke]').getAttribute('d')"
    before = page.ask(curve)
    page.ask("document.getElementById('log').click()")
    assert page.ask(curve) != before
    assert page.ask("document.getElementById('log').getAttribute('aria-pressed')") == "false"


def test_the_wait_is_drawn_beside_its_limits(page: Browser, run_folder: Path, tmp_path: Path) -> None:
    shown(page, write_report(run_folder, tmp_path / "run.html"))
    page.ask(
        "stand({ ...data.about, runs: data.about.runs.map((run) => ({ ...run,"
        " summary: { ...run.summary, wait: 'first(3) | deadline(0.25)' },"
        " tables: { faults: { suspect_after: 0.3 } } })) })"
    )
    page.ask("draw()")
    panel = "[...document.querySelectorAll('#panels section')].find((one) => one.textContent.startsWith('Wait'))"
    texts = page.ask(f"[...{panel}.querySelectorAll('svg text')].map((one) => one.textContent)")
    assert {"limit: deadline 250 ms", "limit: suspected after 300 ms"} <= set(texts)
    assert any(text.startswith("median ") for text in texts)


def test_arrows_scroll_a_table_that_is_too_wide_and_move_the_figures_otherwise(
    page: Browser, run_folder: Path, tmp_path: Path
) -> None:
    shown(page, write_report(run_folder, tmp_path / "run.html"))
    left_to_the_table = """(() => {
        const key = new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true, cancelable: true });
        return document.getElementById("marks").dispatchEvent(key);
    })()"""
    assert not page.ask(left_to_the_table)
    page.ask("document.getElementById('marks').closest('table').style.width = '4000px'")
    assert page.ask(left_to_the_table)


def test_a_comparison(page: Browser, tmp_path: Path) -> None:
    for name in ("one", "two"):
        trained(tmp_path / "both" / name, steps=10)
    shown(page, write_report(tmp_path / "both", tmp_path / "both.html"))
    assert page.ask("document.querySelectorAll('#panels section')[0].querySelectorAll('path[stroke]').length") == 2
    assert page.ask("document.querySelector('#panels .said').textContent") == "onetwo"
    assert page.ask("document.getElementById('title').textContent") == "both: one"
    page.ask("document.querySelectorAll('#runs button')[1].click()")
    page.until("document.getElementById('title').textContent === 'both: two'")


def test_a_drill_opens_on_its_rehearsal(page: Browser, tmp_path: Path) -> None:
    for name in ("baseline", "faulty"):
        trained(tmp_path / "drill" / name, steps=10)
    (tmp_path / "drill" / "faults.toml").write_text('[[fault]]\nkind = "kill"\nat = 0.5\nworker = 3\n')
    shown(page, write_report(tmp_path / "drill", tmp_path / "drill.html"))
    assert page.ask("document.getElementById('title').textContent") == "drill: faulty"
    page.ask("document.querySelectorAll('#runs button')[0].click()")
    page.until("document.getElementById('title').textContent === 'drill: baseline'")
    page.ask("stand(data.about)")  # as when there is something new
    assert page.ask("document.getElementById('title').textContent") == "drill: baseline"


def test_a_team(page: Browser, team_record: Path, tmp_path: Path) -> None:
    shown(page, write_report(team_record, tmp_path / "team.html"))
    assert page.ask("document.getElementById('did').textContent") == "What each rank did"
    assert "has no losses" in page.ask("document.querySelector('#panels .said').textContent")
    assert page.ask("document.querySelectorAll('#cells span.x').length") == 1


def test_hostile_names_do_nothing(page: Browser, tmp_path: Path) -> None:
    folder = trained(tmp_path / "a<b>&'x", steps=5, facts={"data": {"name": HOSTILE}, "policy": HOSTILE})
    row = {
        "step": 5,
        "begin": 9.0,
        "end": 9.5,
        "notices": [{"kind": HOSTILE, "text": HOSTILE, "worker": 1, "time": 9.0}],
    }
    with (folder / "steps.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({**row, "metrics": {HOSTILE: 0.5}}) + "\n")
    shown(page, write_report(folder, tmp_path / "run.html"))
    told = page.ask("document.getElementById('marks').textContent")
    assert "</script><script>alert(1)</script><img src=x onerror=alert(2)>&lt;\\u{2028}\\u{202e}\"'`" in told
    assert page.ask("document.querySelectorAll('img').length") == 0
    assert page.ask("document.querySelectorAll('script').length") == 2


def test_a_live_page_follows_and_says_when_it_ends(page: Browser, run_folder: Path, tmp_path: Path) -> None:
    growing = tmp_path / "growing"
    shutil.copytree(run_folder, growing)
    lines = (run_folder / "steps.jsonl").read_bytes().splitlines(keepends=True)
    (growing / "steps.jsonl").write_bytes(b"".join(lines[:10]))
    watch, over = Watch(growing), threading.Event()

    def read() -> None:
        while not over.is_set():
            watch.read()
            time.sleep(0.05)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with serving(watch) as address:
            page.open(address)
            page.until(f"{DRAWN} && {STATUS}.includes('10 of 30 steps')")
            before = page.ask(PART)
            with (growing / "steps.jsonl").open("ab") as file:
                file.writelines(lines[10:])
            page.until(f"{STATUS}.includes('30 of 30 steps')")
            page.until(f"{PART} !== {json.dumps(before)}")
            page.press("+")
            page.until(f"!{PART}.startsWith('0 to')")
            assert dark_pixels(page) >= 4
            shutil.rmtree(growing)
            page.until("document.getElementById('trouble').textContent.includes('cannot be read any more')")
        page.until("document.getElementById('trouble').textContent.includes('The watch has ended')")
    finally:
        over.set()
        reader.join()
    page.complaints = [one for one in page.complaints if "net::ERR_" not in one]  # that the server is gone


KEY = "getComputedStyle(document.querySelector('#lanes-key .key'))"


def test_on_paper_and_in_forced_colours_nothing_is_lost(page: Browser, run_folder: Path, tmp_path: Path) -> None:
    shown(page, write_report(run_folder, tmp_path / "run.html"))
    assert "all steps were taken" in page.ask("document.getElementById('facts').textContent")
    colour = page.ask(f"{KEY}.backgroundColor")
    page.call("Emulation.setEmulatedMedia", features=[{"name": "forced-colors", "value": "active"}])
    assert page.ask(f"{KEY}.backgroundColor") == colour
    assert page.ask("getComputedStyle(document.getElementById('log')).borderTopWidth") == "3px"
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.ask(f"{KEY}.printColorAdjust") == "exact"
    assert page.ask("getComputedStyle(document.querySelector('.scroll')).maxHeight") == "none"
    page.call("Emulation.setEmulatedMedia", media="")
