"""The architecture page against the code: the parts that it names, and who imports whom."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from .pages import DOCS, ROOT, blocks

pytestmark = pytest.mark.xdist_group("house")  # each process that looks at the syntax of all files parses them anew

SOURCE = ROOT / "src" / "erasurehead"
PAGE = DOCS / "architecture.md"
HOUSE = next(block.text for block in blocks(PAGE, "text") if block.text.startswith("src/erasurehead/"))
LAYERS = [
    line.split() for line in next(b.text for b in blocks(PAGE, "text") if b.text.startswith("errors")).splitlines()
]
DEPTH = {part: depth for depth, line in enumerate(LAYERS) for part in line}


def part_of(module: str) -> str:
    """Return the part of the house that a module (without the package's name) belongs to."""
    return module if module in DEPTH else module.split(".")[0]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


@cache
def import_statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Return all imports of a file, those for types only or within functions included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path: Path) -> Iterator[str]:
    """Yield the modules of this package that a file imports."""
    for node in import_statements(path):
        if isinstance(node, ast.ImportFrom) and node.module == "erasurehead":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("erasurehead."):
            yield str(node.module).removeprefix("erasurehead.")
        elif isinstance(node, ast.Import):
            yield from (a.name.removeprefix("erasurehead.") for a in node.names if a.name.startswith("erasurehead."))


FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path.parent != SOURCE or path.name != "__init__.py"]


def test_the_house_has_exactly_the_parts_that_the_page_names() -> None:
    named = {line.split()[0].rstrip("/") for line in HOUSE.splitlines()[1:]}
    there = {path.name for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert named == there - {"__init__.py"}


def test_every_part_has_a_layer() -> None:
    assert {part_of(module_of(path)) for path in FILES} == set(DEPTH)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_run_one_way(path: Path) -> None:
    own = part_of(module_of(path))
    for module in imports(path):
        other = part_of(module)
        assert other == own or DEPTH[other] < DEPTH[own], f"{own} imports {module}, which is not above it"


@pytest.mark.slow
def test_what_is_named_as_text_shows_something_and_nothing_else_is_named_so() -> None:
    """`shown("reports._html", "table")`, and no other import whose module is put together of text."""
    import importlib

    named: set[tuple[str, str]] = set()
    for path in FILES:
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "shown" in source or "import_module" in source else ():
            if not isinstance(node, ast.Call):
                continue
            text = ast.unparse(node)
            if ast.unparse(node.func) == "shown" and "_internal.shown" in imports(path):
                named.add(ast.literal_eval(f"({', '.join(map(ast.unparse, node.args))})"))
            elif text.startswith(("import_module(f'erasurehead", "importlib.import_module(f'erasurehead")):
                assert module_of(path) in {"_internal.shown", "cli._app"}, f"{module_of(path)}: {text}"
    assert {module.partition(".")[0] for module, _ in named} == {"reports", "codes", "planning", "consensus", "delays"}
    for module, name in named:
        assert callable(getattr(importlib.import_module(f"erasurehead.{module}"), name))


@pytest.mark.slow
def test_no_two_files_import_each_other_in_a_circle() -> None:
    known = {module_of(path) for path in SOURCE.rglob("*.py")}
    graph: dict[str, set[str]] = {}
    for path in FILES:
        found = {
            f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}"[12:] in known else str(node.module)
            for node in import_statements(path)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("erasurehead")
            for alias in node.names
        }
        graph[module_of(path)] = {module.removeprefix("erasurehead.") for module in found}
    while leaves := [module for module, others in graph.items() if not others & graph.keys() - {module}]:
        for module in leaves:
            del graph[module]
    assert not graph


def _forbidden() -> list[tuple[str, str]]:
    table = PAGE.read_text(encoding="utf-8").split("| part | knows nothing of | why |")[1].split("\n\n")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines()[2:]]
    return [(row[0].strip(), other.strip()) for row in rows for other in row[1].split(",")]


@pytest.mark.slow
@pytest.mark.parametrize(("part", "other"), _forbidden())
def test_parts_do_not_know_each_other(part: str, other: str) -> None:
    assert part in DEPTH
    assert (SOURCE / other.replace(".", "/")).is_dir() or (SOURCE / f"{other.replace('.', '/')}.py").is_file()
    for path in FILES:
        if part_of(module_of(path)) == part:
            known = [module for module in imports(path) if f"{module}.".startswith(f"{other}.")]
            assert not known, f"{module_of(path)} imports {known}"


def test_the_contracts_are_where_the_page_says() -> None:
    import importlib

    table = PAGE.read_text(encoding="utf-8").split("| contract |")[1].split("\n\n")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines()[2:]]
    assert len(rows) >= 9
    for names, _, where in rows:
        assert "._" not in where  # whoever writes a class of their own needs a public name
        module = importlib.import_module(where.strip(" `"))
        for name in names.split(","):
            assert getattr(module, name.strip(" `")).__module__.startswith(module.__name__)
