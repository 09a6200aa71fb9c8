"""From tables to a checked configuration; errors are one sentence that names the key."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.user_files import StrPath, printable
from erasurehead.errors import InvalidArgument, invalid
from erasurehead.runs._config.sections import Config
from erasurehead.runs._config.toml import located, read_tables

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_Root = TypeVar("_Root", bound=BaseModel)

_MAY_BE_EMPTY = frozenset({"run.address", "data.missing"})
"""Keys whose own check has a better message for an empty text, or in which it means the empty field."""

_ELSEWHERE: Mapping[str, str] = {
    "label": "target",
    "task": "loss",
    "death": "on_death",
    "lost": "on_loss",
    "suspected": "on_suspicion",
}
"""Keys that stand for what the command line, Python or older run files call so."""

_RULES: Mapping[str, str] = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "string_type": "must be a text",
    "model_type": "must be a section of keys",
    "tuple_type": "must be a list",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
}
"""Pydantic's errors, in the words of errors about arguments in Python."""


def build_config(tables: Entries) -> Config:
    """Check what a run file says; see `build`.

    >>> build_config({"run": {"steps": 5}}).run.steps
    5
    >>> build_config({"run": {"step": 5}})
    Traceback (most recent call last):
    erasurehead.runs._config.checking.UnknownKey: There is no key 'step' in [run]; did you mean 'steps'? \
The keys of [run] are engine, workers, steps, speeds, until, patience, max_seconds, tolerance, \
evaluate_every, preset, initial, seed, seconds_per_task, wire, start_limit, address, records, out, \
overwrite, access, track.
    """
    return build(Config, tables)


def as_config(given: Config | Entries) -> Config:
    """Return settings, which may be given as tables, checked."""
    return given if isinstance(given, Config) else build_config(given)


def build(root: type[_Root], tables: Entries) -> _Root:
    """Check what a run file of some kind says.

    Arguments:
        root: the model of the run file.
        tables: as `tomllib` reads them.

    Raises:
        UnknownKey: if there is no such key; the error names those that exist.
        InvalidArgument: if a value is not allowed; the error names the key.
    """
    try:
        config = root.model_validate(dict(tables))
    except ValidationError as error:
        raise _sentence(root, error.errors(include_url=False)) from None
    for key, text in _texts(config.model_dump()):
        if not text.strip() and key not in _MAY_BE_EMPTY:
            raise invalid(key, "must not be empty", text, "leave it out for the default")
        if printable(text) != text:
            raise invalid(key, "must be UTF-8 text, as a run file is", printable(text), "rename the file or folder")
    return config


def _texts(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in nested tables and lists, each with its key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, item in cast("Mapping[str, object]", value).items():
            yield from _texts(item, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[object]", value):
            yield from _texts(item, key)


def read_config(path: StrPath) -> Config:
    """Read a run file.

    Arguments:
        path: of the TOML file.

    Raises:
        InvalidArgument: if the file cannot be read, or a key or value is not allowed; the error says in which line.
    """
    try:
        return build_config(read_tables(path))
    except InvalidArgument as error:
        raise located(error, error.subject, path) from None


def overridden(below: Entries, above: Entries) -> PlainData:
    """Like `merged`, but without keys that lose their meaning when an option names another engine.

    Arguments:
        below: tables of a run file, or of a run that is continued.
        above: tables that were given in addition.
    """
    out, run = merged(below, above), above.get("run")
    given: Mapping[str, Any] = cast("Mapping[str, Any]", run) if isinstance(run, Mapping) else {}
    no_sections = [key for key in above.keys() & below.keys() if isinstance(above[key], Mapping)]
    out |= {key: below[key] for key in no_sections if not isinstance(below[key], Mapping)}  # to be refused later
    if "address" not in given and given.get("engine", "ray") != "ray" and isinstance(out["run"], Mapping):
        out["run"] = {key: value for key, value in cast("Mapping[str, Any]", out["run"]).items() if key != "address"}
    return out


def merged(below: Entries, above: Entries) -> PlainData:
    """Return tables in which the values of `above` take precedence over those of `below`, section by section.

    Arguments:
        below: for example the tables of a run file.
        above: for example the values from the command line.
    """
    out = dict(below)
    for key, value in above.items():
        under = out.get(key)
        both = isinstance(under, Mapping) and isinstance(value, Mapping)
        out[key] = merged(cast("Mapping[str, Any]", under), cast("Mapping[str, Any]", value)) if both else value
    return out


def _sentence(root: type[BaseModel], errors: list[ErrorDetails]) -> InvalidArgument:
    unknown = next((error for error in errors if error["type"] == "extra_forbidden"), None)
    if unknown is not None:
        return _unknown_key(root, [str(part) for part in unknown["loc"]])
    key = _key(root, errors[0])
    about = [error for error in errors if _key(root, error) == key]
    if isinstance(errors[0]["input"], str) and len(about) > 1:  # whoever wrote a text needs no other types
        about = [error for error in about if error["type"] != "bool_type"]
    rules = [_rule(error) for error in about]
    first, *others = dict.fromkeys(rules)
    return InvalidArgument(
        key,
        " or ".join([first, *(rule.removeprefix("must be ") for rule in others)]),
        errors[0]["input"],
        _instead(errors[0]),
    )


class UnknownKey(InvalidArgument):
    """A run file has an unknown key; the message names the known ones.

    Arguments:
        key: the key with its section, such as `"run.step"`.
        said: the message.
    """

    def __init__(self, key: str, sentence: str) -> None:
        super().__init__(key, "must be a key of a run file", sentence=sentence)
        self.args = (key, sentence)


def _unknown_key(root: type[BaseModel], place: list[str]) -> UnknownKey:
    *sections, key = place
    model = root
    for section in sections:
        model = cast("type[BaseModel]", model.model_fields[section].annotation)
    where = f"[{'.'.join(sections)}]" if sections else "the run file"
    keys, wanted = list(model.model_fields), _ELSEWHERE.get(key, key)
    meant = [
        f"{wanted!r} in [{name}]"
        for name, field in root.model_fields.items()
        if wanted in _keys_within(field.annotation)
    ]
    if wanted in root.model_fields:
        meant = [
            f"[{wanted}]" if _keys_within(root.model_fields[wanted].annotation) else f"{wanted!r} before all sections"
        ]
    meant += map(repr, difflib.get_close_matches(key, keys, n=1))
    guess = f"; did you mean {meant[0]}? The" if meant else "; the"
    sentence = f"There is no key {key!r} in {where}{guess} keys of {where} are {', '.join(keys)}"
    return UnknownKey(".".join(place), sentence)


def _keys_within(annotation: Any) -> Mapping[str, Any]:
    """Return the fields of the keys of a section; none for an annotation that is not that of a section."""
    return annotation.model_fields if isinstance(annotation, type) and issubclass(annotation, BaseModel) else {}


def _key(root: type[BaseModel], error: ErrorDetails) -> str:
    """Return the key that an error is about, without the alternatives and list indices that pydantic adds."""
    names: list[str] = []
    fields: Mapping[str, Any] = root.model_fields
    for part in map(str, error["loc"]):
        if part not in fields:
            break
        names.append(part)
        fields = _keys_within(fields[part].annotation)
    return ".".join(names)


def _instead(error: ErrorDetails) -> str:
    """Return what would work where a frame was given in place of a file, or a text in place of a list."""
    from erasurehead.datasets._readers.frames import is_frame  # which takes a while to import

    if is_frame(error["input"]):
        return "write the frame to a file, or train on what erasurehead.datasets.read makes of it"
    of_texts = error["type"] == "tuple_type" and "interactions" not in error["loc"]  # which are lists of lists
    listed = of_texts and isinstance(error["input"], str)
    return f"write {json.dumps([error['input']], ensure_ascii=False)}" if listed else ""


def _rule(error: ErrorDetails) -> str:
    if error["type"] in _RULES:
        return _RULES[error["type"]].format(**error.get("ctx", {}))
    return error["msg"].replace("Input should", "must", 1)
