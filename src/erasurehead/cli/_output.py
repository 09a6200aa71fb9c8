"""Output of commands: results on stdout, everything else on stderr; with --json, stdout contains only JSON."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from erasurehead._internal.documents import Entries
from erasurehead._internal.plain_text import visible
from erasurehead._internal.user_files import as_named
from erasurehead.cli._options import OutputOptions
from erasurehead.cli._streams import results
from erasurehead.errors import MissingExtra
from erasurehead.runs._jsonl import to_text

if TYPE_CHECKING:
    from erasurehead.training import Callback

_WIDE = 200  # columns of a table that goes into a file or a pipe
_WARNING = "yellow"


class Terminal(Console):
    """A console that prints texts as they are: brackets and colons in them mean nothing, and nothing is invisible.

    Names, labels and messages may come from anybody's data. What would steer a terminal (escape sequences), hide, or
    turn the order of letters around is written as an escape such as `\\x1b`, wherever it stands.
    """

    def __init__(self, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render into segments, whose texts are all visible; those of rich itself that steer the terminal are none."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(as_named(segment.text)), segment.style)


class _Results(Terminal):
    """A console that raises an error, instead of exiting, if the reader of stdout has gone."""

    def on_broken_pipe(self) -> None:
        raise


@contextlib.contextmanager
def sentences() -> Generator[None]:
    """Print what this block warns users of as sentences on stderr, each of them once, and not with a line of code."""
    console, printed, usual = Terminal(stderr=True), set[str](), warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, UserWarning):
            usual(visible(str(message)), category, *place, **more)
        elif str(message) not in printed:
            printed.add(str(message))
            console.print(str(message), style=_WARNING, soft_wrap=True)

    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning, module=r"erasurehead\.")
        warnings.showwarning = show
        yield


class Screen:
    """The terminal or files to which a command prints.

    Arguments:
        options: options of the command on output.
    """

    def __init__(self, options: OutputOptions) -> None:
        self._options = options
        self._aside = Terminal(stderr=True)
        self._warned: list[str] = []

    def say(self, text: str) -> None:
        """Print an explanation on stderr, unless --quiet is given."""
        if not self._options.quiet:
            self._aside.print(visible(text, keep=""), soft_wrap=True)

    def detail(self, text: str) -> None:
        """Print on stderr how something is done, with --verbose."""
        if getattr(self._options, "verbose", False):
            self.say(text)

    def starting(self, what: str) -> None:
        """Print what is done next and may take a while, such as `"reading houses.csv"`, unless --quiet is given."""
        self.say(f"{what} ...")

    def opening(self, trackers: Iterable[str]) -> None:
        """Print which trackers a run waits for before it begins, which may take half a minute."""
        for tracker in dict.fromkeys(trackers):
            self.starting(f"waiting for {tracker}")

    def warn(self, text: str) -> None:
        """Print a warning on stderr, also with --quiet; with --json, the result lists it, too."""
        self._warned.append(text)
        self._aside.print(visible(text, keep=""), style=_WARNING, soft_wrap=True)

    def result(self, data: Entries, *shown: RenderableType) -> None:
        """Print the result on stdout.

        Arguments:
            data: the result as plain data, printed with --json, with all warnings so far.
            *shown: the result as texts and tables, printed without --json.
        """
        if self._options.as_json:
            self._write([to_text({**data, "warnings": self._warned})])
            return
        with results():
            console = _Results(width=None if sys.stdout.isatty() else _WIDE)
            for item in shown:
                console.print(item, soft_wrap=isinstance(item, str))

    def lines(self, lines: Iterable[str]) -> None:
        """Print plain lines on stdout: data, which are verbatim in a file or a pipe, and visible on a terminal."""
        shown = map(visible, lines) if sys.stdout.isatty() else lines
        self._write(f"{line}\n" for line in shown)

    @staticmethod
    def _write(texts: Iterable[str]) -> None:
        with results() as stream:
            stream.writelines(texts)

    @contextlib.contextmanager
    def drawing(self, what: str) -> Generator[None]:
        """Warn that there is no picture, or whatever it is called, if something that draws it is not installed."""
        try:
            yield
        except MissingExtra as missing:
            self.warn(f"No {what}: {missing}")

    @contextlib.contextmanager
    def counting(self, what: str, after: float = 2.0) -> Generator[Callable[[int, int], None]]:
        """Yield a function that shows progress as a bar, given the number of items done and their total.

        Arguments:
            what: name of the items, in the plural.
            after: seconds after which the bar appears.
        """
        import time

        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        begin = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        bar = Progress(*columns, console=self._aside, transient=True)
        task = bar.add_task(what, total=None)
        seen = not self._options.quiet and self._aside.is_terminal
        started = False

        def tell(done: int, of: int) -> None:
            nonlocal started
            if seen and not started and time.monotonic() - begin > after:
                started = True
                bar.start()
            if started:
                bar.update(task, completed=done, total=of)

        try:
            yield tell
        finally:
            if started:
                bar.stop()

    @contextlib.contextmanager
    def watching(self, transient: bool = False) -> Generator[Sequence[Callback]]:
        """Yield callbacks for runs: notices always; a progress bar on a terminal, or lines for a log otherwise.

        Arguments:
            transient: whether the bar goes when the runs are over.
        """
        from erasurehead.reports._progress import Notices, Progress

        notices = Notices(self._aside, self._warned)
        if self._options.quiet:
            yield [notices]
            return
        with Progress(self._aside, transient) as progress:
            yield [notices, progress]
