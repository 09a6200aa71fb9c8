"""The keys of run files as data, from which options, help, tables and a JSON schema are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from erasurehead._internal.documents import PlainData
from erasurehead.runs._config.sections import Config, Texts

_PANELS: Mapping[str, str] = {
    "data": "Data",
    "problem": "Model and optimizer",
    "optimizer": "Model and optimizer",
    "delays": "Delays",
    "run": "Workers and steps",
    "checkpoints": "Output",
    "faults": "Death, hanging and lies",
    "consensus": "Peers",
}
"""The panel of the help for the options of each section."""


@dataclass(frozen=True)
class Key:
    """A key of a run file.

    Attributes:
        section: its section; empty for a key above all sections.
        name: its name within the section.
        text: its meaning, for people.
        default: its default; None for a value that depends on other keys.
        type: type of its values other than None: `bool`, `int`, `float`; `str` for whatever else is written as a text.
        kind: kind of its values, in words, such as `"whole number"`.
        values: texts that it can be, in place of others or in addition.
        limits: limits of its numbers, such as `{"ge": 1}`.
        options: its options on the command line: long, then short; empty if it has none.
        metavar: placeholder for its value in the help.
        panel: panel in the help.
    """

    section: str
    name: str
    text: str
    default: Any
    type: type[bool] | type[int] | type[float] | type[str]
    kind: str
    values: tuple[str, ...] = ()
    limits: tuple[tuple[str, float], ...] = ()
    options: tuple[str, ...] = ()
    metavar: str = ""
    panel: str = ""

    def as_dict(self) -> PlainData:
        """Return the key as plain data."""
        return {
            "key": self.path,
            "options": list(self.options),
            "values": self.range,
            "default": self.default,
            "text": self.text,
        }

    @cached_property
    def path(self) -> str:
        """Section and name, such as `"run.workers"`."""
        return f"{self.section}.{self.name}" if self.section else self.name

    @cached_property
    def option(self) -> str:
        """The long option, such as `"--workers"`; empty if there is none."""
        return self.options[0].partition("/")[0] if self.options else ""

    @property
    def help(self) -> str:
        """Its meaning, with its default if that is a number."""
        number = isinstance(self.default, int | float) and not isinstance(self.default, bool)
        return f"{self.text} By default {self.default:g}." if number and self.default else self.text

    @property
    def range(self) -> str:
        """The range of its values, in a few words."""
        bounds = " and ".join(f"{_SIGNS[name]} {limit:g}" for name, limit in self.limits)
        return ", ".join(filter(None, (f"{self.kind} {bounds}".strip(), *self.values)))


_SIGNS: Mapping[str, str] = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
_KINDS: Mapping[Any, str] = {bool: "true or false", int: "whole number", float: "number", str: "text", tuple: "texts"}


@cache
def keys(of: type[BaseModel] = Config) -> tuple[Key, ...]:
    """Return all keys of a kind of run files, in the order of the sections.

    >>> {key.path: (key.option, key.range, key.default) for key in keys()}["checkpoints.keep"]
    ('', 'whole number >= 1', 2)
    """
    return tuple(_keys_of(of, ""))


def _keys_of(model: type[BaseModel], section: str) -> list[Key]:
    keys: list[Key] = []
    for name, field in model.model_fields.items():
        annotation: Any = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            keys += _keys_of(annotation, name)
            continue
        extra = cast("Mapping[str, str]", field.json_schema_extra or {})
        parts = [part for part in _alternatives(annotation) if part is not NoneType]
        values = tuple(value for part in parts if get_origin(part) is Literal for value in get_args(part))
        kinds = [get_origin(part) or part for part in parts if get_origin(part) is not Literal]
        plain = [part for part in kinds if part in (bool, int, float)]
        limits = [
            (sign, float(limit))
            for rule in (*field.metadata, *_rules(annotation))
            for sign in _SIGNS
            if (limit := getattr(rule, sign, None)) is not None
        ]
        keys.append(
            Key(
                section,
                name,
                str(field.description),
                field.default,
                plain[0] if len(parts) == len(plain) == 1 else str,
                " or ".join(_KINDS[part] for part in kinds),
                values,
                tuple(limits),
                tuple(extra.get("x-option", "").replace(",", " ").split()),
                extra.get("x-metavar", ""),
                extra.get("x-panel", _PANELS.get(section, "")),
            )
        )
    return keys


def _alternatives(annotation: Any) -> list[Any]:
    """Return the types that a value may have, without annotations."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return [part for alternative in get_args(annotation) for part in _alternatives(alternative)]
    if annotation is Texts or getattr(annotation, "__metadata__", None):
        return _alternatives(get_args(annotation)[0])
    return [annotation]


def _rules(annotation: Any) -> tuple[Any, ...]:
    """Return the rules for some of the types that a value may have."""
    if get_origin(annotation) in (Union, UnionType):
        return tuple(rule for alternative in get_args(annotation) for rule in _rules(alternative))
    return getattr(annotation, "__metadata__", ())


def json_schema(kinds: Mapping[str, type[BaseModel]] | None) -> PlainData:
    """Return a JSON schema of run files, with which editors complete and check them.

    Arguments:
        kinds: models of other kinds of run files, by the section that identifies them, in addition to those of
            training with a coordinator.
    """
    further = kinds or {}
    refs, schema = models_json_schema([(model, "validation") for model in (Config, *further.values())])
    whole: PlainData = refs[Config, "validation"]
    for section, model in further.items():
        whole = {"if": {"required": [section]}, "then": refs[model, "validation"], "else": whole}
    if further:
        # Editors complete by what stands in anyOf, and know nothing of if; the empty schema keeps it from judging.
        whole["anyOf"] = [*refs.values(), {}]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ErasureHead run file",
        "description": "All that a run file may say. All keys may be left out.",
        **whole,
        **_not_blank(schema),
    }


def _not_blank(schema: Any) -> Any:
    """Return a schema, or a part of one, whose texts may not be blank: run files with such are refused (`build`)."""
    if isinstance(schema, list):
        return [_not_blank(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    parts = {name: _not_blank(part) for name, part in cast("dict[str, Any]", schema).items()}
    free = parts.get("type") == "string" and not parts.keys() & {"enum", "const", "pattern"}
    return parts | {"pattern": r"\S"} if free else parts


def markdown_table(chosen: Iterable[Key]) -> str:
    """Return keys as a table in Markdown, for the documentation."""
    lines = ["| key | option | values | default | what it means |", "|---|---|---|---|---|"]
    for key in chosen:
        options = ", ".join(f"`{option}`" for option in key.options)
        default = f"`{shown(key.default)}`" if shown(key.default) else ""
        cells = (f"`{key.path}`", options, key.range, default, key.text)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def shown(default: Any) -> str:
    """Return a default as a run file writes it; empty if it depends on other keys, or is nothing.

    >>> shown(True), shown("zeros"), shown(30), shown(None)
    ('true', '"zeros"', '30', '')
    """
    if default is None or default == ():
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return f'"{default}"' if isinstance(default, str) else f"{default:g}"
