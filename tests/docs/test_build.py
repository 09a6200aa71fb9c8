"""The site builds without a warning, leads to every page once, and its API reference has every public name."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter

import pytest

from .conftest import Site
from .pages import DOCS, blocks

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.xdist_group("documentation")]  # built once

PACKAGES = sorted(
    match
    for page in (DOCS / "api").glob("*.md")
    for block in blocks(page, "{eval-rst}")
    for match in re.findall(r"public-names:: (\S+)", block.text)
)

MOST = 10
"""Pages in one list of the sidebar, but for the API's rooms and the pictures: more is sorted into sections."""


def test_the_site_builds_without_a_warning(site: Site) -> None:
    assert site.complaints == ""
    assert (site.folder / "index.html").is_file()


def test_every_page_is_in_one_list_of_the_sidebar(site: Site) -> None:
    listed = Counter(page for pages in site.environment.toctree_includes.values() for page in pages)
    assert {page for page, count in listed.items() if count > 1} == set()
    assert set(listed) == site.environment.found_docs - {"index"}


def test_no_list_of_the_sidebar_is_long(site: Site) -> None:
    lists = {
        page: [toctree["entries"] for toctree in document.findall(condition=_is_toctree)]
        for page in site.environment.found_docs - {"api/index", "pictures/index"}
        for document in [site.environment.get_doctree(page)]
    }
    assert any(lists.values())
    assert {page for page, several in lists.items() for entries in several if len(entries) > MOST} == set()


def _is_toctree(node: object) -> bool:
    return type(node).__name__ == "toctree"


def test_every_public_name_is_in_the_reference(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))
    exported = importlib.import_module("public_names").public_names
    pages = "".join(page.read_text() for page in (site.folder / "api").glob("*.html"))
    for module in PACKAGES:
        value = importlib.import_module(module)
        names = exported(value)
        assert names, module
        for name in names:
            home = getattr(getattr(value, name), "__name__", name)  # `first` is documented as the class `First`
            assert f'<span class="pre">{name}</span>' in pages or f'<span class="pre">{home}</span>' in pages, name


def test_every_script_of_the_gallery_has_drawn_its_pictures(site: Site) -> None:
    scripts = sorted(path.stem for path in (DOCS / "gallery").glob("plot_*.py"))
    assert scripts
    for script in scripts:
        page = (site.folder / "pictures" / f"{script}.html").read_text(encoding="utf-8")
        assert re.search(rf'<img alt="\w[^"]+"[^>]* src="\.\./_images/sphx_glr_{script}_001\.png"', page), script


def test_the_first_mention_of_a_word_leads_to_the_glossary(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (site.folder / "schemes.html").read_text(encoding="utf-8")
    assert page.count('href="words.html#term-wait-rule"') == 1
    assert 'href="words.html#term-task"' not in page  # which is an everyday word
    words = (site.folder / "words.html").read_text(encoding="utf-8")
    assert 'href="api/delays.html#erasurehead.delays.Delays"' in words
    assert 'class="mention"' not in words
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))
    assert set(site.environment.domaindata["std"]["terms"]) > importlib.import_module("first_mentions").EVERYDAY


def test_every_command_and_option_is_in_the_reference(site: Site) -> None:
    from ..typed import command_line

    page = (site.folder / "command-line.html").read_text(encoding="utf-8")
    for words, command in command_line().commands.items():
        name = words.replace(" ", "-")
        assert f'<section id="{name}">' in page
        for option in command.params:
            longest = max(option.opts, key=len)
            if option.param_type_name == "option" and longest not in ("--help", "--help-all"):
                assert f'id="cmdoption-erasurehead-{name}-{longest.lstrip("-")}"' in page, (name, longest)


def test_every_package_has_a_page() -> None:
    import erasurehead

    packages = {f"erasurehead.{name}" for name in erasurehead.__all__ if inspect.ismodule(getattr(erasurehead, name))}
    assert packages <= set(PACKAGES)
