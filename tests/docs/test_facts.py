"""Facts travel as fields: no code reads a sentence that the library wrote, so that every sentence can be reworded."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .pages import ROOT

SOURCE = ROOT / "src" / "erasurehead"

SENTENCES = {
    "guarantee",
    "hint",
    "kind",
    "message",
    "noticed",
    "reason",
    "reasons",
    "said",
    "source",
    "stopped",
    "summary",
    "text",
    "title",
    "warning",
    "why",
}
"""Attributes that hold what people read."""

MANY = {"failed", "failures", "notes", "notices", "reasons", "warnings"}
"""Attributes that hold several of them."""

READING = {
    "count",
    "endswith",
    "find",
    "index",
    "partition",
    "removeprefix",
    "rpartition",
    "rsplit",
    "split",
    "splitlines",
    "startswith",
}
"""Methods that take a text apart. That a full stop is taken off, to go on with the sentence, reads nothing."""

MATCHING = {"findall", "finditer", "fullmatch", "match", "search", "split", "sub"}

FOREIGN = {
    "_internal/text_parser.py": "what the user wrote",
    "datasets/_preprocessing/design.py": "what the user's file holds",
    "datasets/_published/fetching.py": "what scikit-learn says",
    "decompile": "the code that is being written",
    "engines/_ray/handle.py": "what Ray says",
    "testing": "assertions",
    "torch": "what PyTorch says",
}
"""Files whose texts are not the library's own sentences."""


class _Reader(ast.NodeVisitor):
    """Finds where the text of an error, or what a person is told, is taken apart."""

    def __init__(self) -> None:
        self.found: list[int] = []
        self._errors: set[str] = set()
        self._known: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before = self._known
        self._known = set()
        self.generic_visit(node)
        self._known = before

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._errors.add(node.name)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if self._is_sentence(node.value):
            self._known |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._loop(node.target, node.iter)
        self.generic_visit(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp) -> None:
        for part in node.generators:
            self._loop(part.target, part.iter)
        self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp

    def _loop(self, target: ast.expr, over: ast.expr) -> None:
        if isinstance(over, ast.Attribute) and over.attr in MANY and isinstance(target, ast.Name):
            self._known.add(target.id)

    def visit_Compare(self, node: ast.Compare) -> None:
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, ast.In | ast.NotIn) and self._is_sentence(right) and _is_text(node.left):
                self.found.append(node.lineno)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in READING and self._is_sentence(node.func.value):
                self.found.append(node.lineno)
            if node.func.attr in MATCHING and any(self._is_sentence(argument) for argument in node.args):
                self.found.append(node.lineno)
        self.generic_visit(node)

    def _is_sentence(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in SENTENCES
        if isinstance(node, ast.Name):
            return node.id in self._known
        if isinstance(node, ast.Subscript):
            return (
                isinstance(node.value, ast.Attribute) and node.value.attr == "args" and self._is_error(node.value.value)
            )
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str":
            return len(node.args) == 1 and (self._is_error(node.args[0]) or self._is_sentence(node.args[0]))
        return (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and self._is_sentence(node.func.value)
        )

    def _is_error(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and (node.id in self._errors or node.id in ("error", "exception", "failure"))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr | ast.Name) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def read_in(code: str) -> list[int]:
    """Return the lines in which a sentence is read."""
    reader = _Reader()
    reader.visit(ast.parse(code))
    return reader.found


def modules() -> Iterator[str]:
    """Yield the source files, but for those that read foreign texts."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not any(name.startswith(foreign) for foreign in FOREIGN):
            yield name


@pytest.mark.slow
def test_no_sentence_of_the_library_is_read() -> None:
    found = [f"{name}:{line}" for name in modules() for line in read_in((SOURCE / name).read_text(encoding="utf-8"))]
    assert not found


@pytest.mark.parametrize(
    "code",
    [
        'status = "failed" if run.stopped.startswith("stopped") else "finished"',
        'resized = sum("code is re-formed" in entry.text for entry in entries)',
        'failures = sum("refused" in text for row in run.steps for text in row.failed)',
        "for text in row.failed:\n    found = _FAILED.match(text)",
        'try:\n    run()\nexcept ValueError as error:\n    if "too few" in str(error):\n        raise',
        "try:\n    run()\nexcept ValueError as error:\n    head, _, rest = str(error).partition(': ')",
        "def told(error):\n    text = str(error)\n    return re.search(r'worker (\\d+)', text)",
        'named = re.findall(r"\\d+", str(error).lower())',
        "key = error.args[0].split(' ')[0]",
        'if notice.text.lower().endswith("died"):\n    pass',
        'is_synthetic = experiment.data.source.startswith("synthetic stand-in")',
    ],
)
def test_what_reads_a_sentence_is_found(code: str) -> None:
    assert read_in(code)


@pytest.mark.parametrize(
    "code",
    [
        'deaths = sum(notice.kind == "died" for notice in run.notices)',
        'raise DataError(f"{error} Name another file.")',
        "ended = bool(run.stopped)",
        'said = str(error).rstrip(".")',
        "if error.argument in known:\n    raise",
        'names = text.split(",")',
        'if "workers" in notice.data:\n    pass',
    ],
)
def test_what_reads_facts_is_not(code: str) -> None:
    assert not read_in(code)


REFUSALS = {"InvalidArgument", "OutOfReach", "RuleUnreachable", "Unbearable", "invalid"}
"""What the errors are made by that refuse an argument."""


def unnamed(code: str) -> list[int]:
    """Return the lines in which an argument is refused without a word, as facts, of which it is and by what rule."""
    found: list[int] = []
    refuses = any(name in code for name in REFUSALS)  # most files do not, and need not be parsed
    for node in ast.walk(ast.parse(code)) if refuses else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in REFUSALS:
            given = dict(zip(("argument", "rule"), node.args, strict=False)) | {
                str(keyword.arg): keyword.value for keyword in node.keywords
            }
            whole = [one.value for one in given.values() if isinstance(one, ast.Constant)]
            if "None" not in given and (not {"argument", "rule"} <= given.keys() or "" in whole):
                found.append(node.lineno)
    return found


@pytest.mark.slow
def test_whatever_is_refused_is_named() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in unnamed(path.read_text(encoding="utf-8"))
    ]
    assert not found


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ('raise InvalidArgument("Give either stragglers or load.")', False),
        ('raise InvalidArgument("", "must be given")', False),
        ('raise RuleUnreachable(f"{rule} asks for more than there is")', False),
        (
            'raise InvalidArgument("stragglers", "must be given, or load", sentence="Give either stragglers or load.")',
            True,
        ),
        ('raise invalid("load", "must be at most 5", 7)', True),
        ('raise invalid(argument=name, rule="must be at most 5", value=7)', True),
        ("raise InvalidArgument(**fields)", True),
    ],
)
def test_what_is_refused_without_a_name_is_found(code: str, named: bool) -> None:
    assert bool(unnamed(code)) != named
