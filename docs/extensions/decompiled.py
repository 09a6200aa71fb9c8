"""The sources on the page about the decompiler, and the table of primitives on another.

`python docs/extensions/decompiled.py` writes them into `docs/decompile.md` and `docs/decompile-primitives.md`; a test
makes them anew and compares.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from pathlib import Path

import jax
import primitive_table

from erasurehead.decompile import decompile
from erasurehead.decompile._targets import find_function, read_examples

PAGE, TABLE = (Path(__file__).resolve().parents[1] / name for name in ("decompile.md", "decompile-primitives.md"))
_SOURCE = re.compile(r"```sh\n(erasurehead decompile my\.py[^\n]*)\n```\n\n```python\n.*?```", re.DOTALL)
_TABLE = re.compile(r"(<!-- coverage -->\n).*(<!-- end of coverage -->)", re.DOTALL)


def source_of(command: str, folder: Path) -> str:
    """Return what a command on the page prints, for the file that the page shows."""
    (_, _, target, *options) = shlex.split(command)
    function = find_function(str(folder / target))
    backend = options[options.index("--backend") + 1] if "--backend" in options else "jax"
    examples = read_examples(function, [])
    gradient = jax.grad(function)
    return decompile(gradient, *examples, backend=backend, name=f"grad_{function.__name__}", check=False).text


def with_sources(text: str) -> str:
    """Return the page with the sources that its commands print."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "my.py").write_text(text.split("```python\n")[1].split("```")[0])

        def fill(match: re.Match[str]) -> str:
            return f"```sh\n{match[1]}\n```\n\n```python\n{source_of(match[1], folder)}```"

        return _SOURCE.sub(fill, text)


def rows(text: str) -> list[str]:
    """Return the primitives in the table of the page."""
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def with_table(text: str, ops: list[str]) -> str:
    """Return the page with the table of primitives."""
    return _TABLE.sub(lambda match: f"{match[1]}{primitive_table.table(ops)}\n{match[2]}", text)


def main() -> None:
    """Write the pages anew."""
    PAGE.write_text(with_sources(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    text = TABLE.read_text(encoding="utf-8")
    TABLE.write_text(
        with_table(text, [*primitive_table.listed(), *primitive_table.explore(), *rows(text)]), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
