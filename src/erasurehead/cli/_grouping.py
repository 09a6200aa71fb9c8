"""Groups of options: a command takes a dataclass, and the command line gets one option for each of its fields.

Options and arguments are declared as defaults, of fields and of parameters alike, by `options.option` and its kin.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

DECLARED = "typer"
"""Where the metadata of a field have what is declared of its option."""


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer in which each dataclass parameter is replaced by the fields of the dataclass.

    Arguments:
        command: a function with annotated parameters; a group is annotated with a dataclass whose fields are annotated
            and have defaults.
    """
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        kind: Any = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            groups[name], hints = kind, get_type_hints(kind)
            parameters += [_parameter(field.name, hints[field.name], field) for field in fields(kind)]
        else:
            parameters.append(_parameter(name, kind, parameter.default))

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


def _parameter(name: str, kind: Any, declared: Field[Any]) -> inspect.Parameter:
    """Return the parameter of an option, or an argument, as typer reads it."""
    default = inspect.Parameter.empty if declared.default is MISSING else declared.default
    annotation = Annotated[kind, declared.metadata[DECLARED]]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
