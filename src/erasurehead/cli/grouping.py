"""Groups of options: a command takes a dataclass, and the command line gets one option for each of its fields."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Container
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer in which each dataclass parameter is replaced by the fields of the dataclass.

    Arguments:
        command: a function with annotated parameters; a group is annotated with a dataclass whose fields are annotated
            and have defaults.
    """
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += _fields(parameter.annotation)
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def grouped(**values: Any) -> None:
        arguments = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**arguments, **values)

    del grouped.__wrapped__  # otherwise typer would see the grouped parameters
    signature: Any = inspect.Signature(parameters)
    grouped.__dict__["__signature__"] = signature
    grouped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return grouped


def _fields(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(group)
    ]


def refuse_others(taken: Container[str], rule: str, *groups: Any) -> None:
    """Raise if an option is given that what the command is asked to do does not take.

    Arguments:
        taken: names of the fields whose options it takes.
        rule: what is said of the others.
        *groups: groups of options whose fields are called as the options are.

    Raises:
        InvalidArgument: if so; the error names the option.
    """
    from erasurehead.errors import UNSAID, InvalidArgument

    for group in groups:
        for field in fields(group):
            value = getattr(group, field.name)
            if field.name not in taken and value != field.default:
                raise InvalidArgument(f"--{field.name.replace('_', '-')}", rule, UNSAID if value is True else value)
