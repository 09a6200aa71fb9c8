"""`erasurehead decompile`: print a JAX function as Python source."""

from __future__ import annotations

from pathlib import Path

from erasurehead.cli._options import OutputOptions, argument, option
from erasurehead.cli._output import Screen
from erasurehead.cli._streams import check_open
from erasurehead.errors import invalid

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
    target: str = argument("TARGET", "MODULE:FUNCTION or FILE.py:FUNCTION."),
    example: list[str] | None = option(
        "--example, -e",
        "One per argument: 'float32[100,5]', key, a number, a dict or list of these.",
        metavar="EXAMPLE",
    ),
    grad: bool = option("--grad", "Decompile the gradient with respect to the first argument.", default=False),
    backend: str = option(
        "--backend",
        "The library that the source uses: jax (the default) or numpy.",
        metavar="NAME",
        shown=True,
        default="jax",
    ),
    out: str | None = option("--out, -o", "Write the source to this file instead of printing it.", metavar="FILE.py"),
    keep_calls: bool = option("--keep-calls", "Keep jitted functions as separate functions.", default=False),
    comments: bool = option("--comments", "Add comments on which of your lines each line comes from.", default=False),
    effects: str = option(
        "--effects", "error, or comment to keep debug.print as comments.", metavar="WHAT", shown=True, default="error"
    ),
    x64: bool = option("--x64", "Trace with 64-bit types.", default=False),
    unchecked: bool = option("--no-check", "Do not compare the source with the function.", default=False),
    output: OutputOptions,
) -> None:
    """Print a function as source."""
    from erasurehead.decompile import decompile
    from erasurehead.decompile._installed import jax_module
    from erasurehead.decompile._targets import find_function, read_examples

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
