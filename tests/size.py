"""How large the house is: files, lines of code, syntax nodes and names, room by room; `make size` prints it.

Growth is a decision: `tests/docs/test_size.py` holds the sums below, and whoever needs more says so there.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "erasurehead"


@dataclass(frozen=True)
class Size:
    """What a room, or the whole house, comes to.

    Attributes:
        files: number of modules.
        lines: lines with code on them: no docstrings, comments or blank lines.
        nodes: nodes of the syntax trees.
        names: names that the room's `__init__` exports.
        skips: places where the formatter is told to keep away.
        classes: names of the classes, with a count of definitions.
    """

    files: int
    lines: int
    nodes: int
    names: int
    skips: int
    classes: Counter[str]

    def __add__(self, other: Size) -> Size:
        return Size(
            self.files + other.files,
            self.lines + other.lines,
            self.nodes + other.nodes,
            self.names + other.names,
            self.skips + other.skips,
            self.classes + other.classes,
        )

    @property
    def defined_twice(self) -> list[str]:
        """Class names without an underscore that are defined more than once."""
        return sorted(name for name, count in self.classes.items() if count > 1 and not name.startswith("_"))


NOTHING = Size(0, 0, 0, 0, 0, Counter())


def is_private(path: Path) -> bool:
    """Return whether a file is private: a part of its path below the package begins with an underscore."""
    return any(part.startswith("_") for part in path.relative_to(SOURCE).parts if part != "__init__.py")


def exported(path: Path) -> set[str]:
    """Return the names that a package offers: those in `__all__`, and those imported with `name as name`.

    Packages within it are none of them, and a private package offers nothing.
    """
    found: set[str] = set()
    if is_private(path):
        return found
    own = ".".join(("erasurehead", *path.relative_to(SOURCE).parts[:-1]))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module != own:
            found |= {alias.name for alias in node.names if alias.asname == alias.name}
        elif isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["__all__"]:
            found |= {str(item.value) for item in ast.walk(node.value) if isinstance(item, ast.Constant)}
    return found


def size_of(path: Path) -> Size:
    """Return the size of one module."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    docs = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    written = enumerate(text.splitlines(), start=1)
    lines = {number for number, line in written if line.strip() and not line.lstrip().startswith("#")}
    theirs = path.parent.name == "sklearn"  # estimators have scikit-learn's names, whatever else has them here
    classes = Counter(node.name for node in tree.body if isinstance(node, ast.ClassDef) and not theirs)
    # What the whole house offers by itself is in its rooms, too.
    names = len(exported(path)) if path.name == "__init__.py" and path.parent != SOURCE else 0
    return Size(1, len(lines - docs), sum(1 for _ in ast.walk(tree)), names, text.count("# fmt: skip"), classes)


@cache
def rooms() -> dict[str, Size]:
    """Return the size of each room, and of the files beside them under an empty name."""
    found: dict[str, Size] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        room = parts[0] if len(parts) > 1 else ""
        found[room] = found.get(room, NOTHING) + size_of(path)
    return found


def main() -> None:
    """Print a table of all rooms, and what is defined twice."""
    found = rooms()
    whole = sum(found.values(), NOTHING)
    print(f"{'room':14}{'files':>7}{'lines':>8}{'nodes':>9}{'names':>7}{'skips':>7}")
    for room, size in [*sorted(found.items(), key=lambda item: -item[1].nodes), ("all", whole)]:
        print(f"{room or '(beside)':14}{size.files:7}{size.lines:8}{size.nodes:9}{size.names:7}{size.skips:7}")
    print(f"classes defined more than once: {', '.join(whole.defined_twice) or 'none'}")


if __name__ == "__main__":
    main()
