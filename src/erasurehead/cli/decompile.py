"""`erasurehead decompile`: print a JAX function as Python source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from erasurehead.cli.options import OutputOptions
from erasurehead.cli.screen import Screen
from erasurehead.cli.streams import check_open

HELP = """
Print a JAX function, or its gradient, as Python to read, edit and run.

[bold]erasurehead decompile my.py:loss --grad \\
    --example 'float32[3]' --example 'float32[100,3]'[/bold]
  The gradient with respect to the first argument, for these types.

[bold]erasurehead decompile my.py:loss --grad --backend numpy --out g.py[/bold]
  The same, to be run without JAX; the types are those that my.py annotates,
  as in def loss(w: "float32[3]", x: "float32[100,3]").

The source is compared with the function on the examples and on fresh inputs
before it is printed. If something cannot be translated, the error says what
and where. FILE.py is executed, as if Python ran it.
"""


def run(
    *,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="MODULE:FUNCTION or FILE.py:FUNCTION.", show_default=False)
    ],
    example: Annotated[
        list[str] | None,
        typer.Option(
            "--example",
            "-e",
            metavar="EXAMPLE",
            show_default=False,
            help="One per argument: 'float32[100,5]', key, a number, a dict or list of these, an .npy or .npz file.",
        ),
    ] = None,
    grad: Annotated[
        bool, typer.Option("--grad", help="Decompile the gradient with respect to the first argument.")
    ] = False,
    backend: Annotated[
        str,
        typer.Option("--backend", metavar="NAME", help="The library that the source uses: jax (the default) or numpy."),
    ] = "jax",
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE.py",
            help="Write the source to this file instead of printing it.",
            show_default=False,
        ),
    ] = None,
    keep_calls: Annotated[
        bool, typer.Option("--keep-calls", help="Keep jitted functions as separate functions.")
    ] = False,
    comments: Annotated[
        bool, typer.Option("--comments", help="Add comments on which of your lines each line comes from.")
    ] = False,
    effects: Annotated[
        str, typer.Option("--effects", metavar="WHAT", help="error, or comment to keep debug.print as comments.")
    ] = "error",
    x64: Annotated[bool, typer.Option("--x64", help="Trace with 64-bit types.")] = False,
    unchecked: Annotated[bool, typer.Option("--no-check", help="Do not compare the source with the function.")] = False,
    output: OutputOptions,
) -> None:
    """Print a function as source."""
    from erasurehead.decompile import decompile
    from erasurehead.decompile.installed import jax_module
    from erasurehead.decompile.targets import find_function, read_examples
    from erasurehead.errors import invalid

    if out is not None and Path(out).suffix != ".py":
        raise invalid("--out", "must end with .py", out)
    if out is None:
        check_open()
    screen = Screen(output)
    jax = jax_module()
    with jax.enable_x64(x64 or bool(jax.config.jax_enable_x64)):
        function = find_function(target)
        examples = read_examples(function, example or [])
        name = getattr(function, "__name__", "function")
        source = decompile(
            jax.grad(function) if grad else function,
            *examples,
            backend=backend,
            inline=not keep_calls,
            comments=comments,
            effects=effects,
            check=not unchecked,
            name=f"grad_{name}" if grad else name,
        )
    if source.report is not None:
        screen.say(str(source.report))
    if out is not None:
        source.save(Path(out))
        screen.say(f"Written to {out}.")
    data = {"name": source.name, "backend": backend, "hash": source.hash, "text": source.text}
    if out is not None and not output.as_json:
        return
    screen.result(data | {"file": out}, source.text.rstrip("\n"))
