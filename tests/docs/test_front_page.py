"""What the package index and the front page of the documentation show."""

from __future__ import annotations

import re
import tomllib

from .pages import DOCS, ROOT, blocks

_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")


def test_pictures_of_the_readme_show_elsewhere_and_are_those_of_the_documentation() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    found = _PICTURE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found
    for address in found:
        assert address.startswith("https://raw.githubusercontent.com/"), address
        owner_and_name = project["urls"]["Source"].removeprefix("https://github.com/")
        path = address.removeprefix(f"https://raw.githubusercontent.com/{owner_and_name}/main/")
        assert (ROOT / path).is_file(), address


def test_the_front_page_has_a_picture_and_a_command() -> None:
    index = DOCS / "index.md"
    assert blocks(index, "sh")
    assert all((DOCS / path).is_file() for path in _PICTURE.findall(index.read_text(encoding="utf-8")))
    assert _PICTURE.search(index.read_text(encoding="utf-8"))
