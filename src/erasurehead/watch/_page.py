"""The page: one template for what is live and for what is mailed, and a policy that lets only its own script run."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from functools import cache
from importlib.resources import files
from pathlib import Path

from erasurehead._internal.atomic_files import write_whole
from erasurehead._internal.documents import Entries
from erasurehead._internal.storage.access import Access
from erasurehead._internal.user_files import StrPath
from erasurehead.errors import InvalidArgument
from erasurehead.runs._jsonl import to_line
from erasurehead.training._result import LOWER_IS_BETTER
from erasurehead.watch._runs import Excerpt
from erasurehead.watch._watch import Watch

_DATA, _POLICY = '"data of the page"', "policy of the page"
"""What stands in the template for what is to come there."""

REPORTED = Excerpt(points=2000, columns=600, bars=20_000, newest=True)
"""How finely a report shows a run: it cannot ask for more, whatever is zoomed into."""


@cache
def _template() -> str:
    return (files("erasurehead.watch") / "page.html").read_text(encoding="utf-8")


@cache
def policy() -> str:
    """Return the content security policy of the page: its own style and script, and nothing else from anywhere."""
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(found.encode()).digest()).decode()}'"
        for found in re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", _template(), flags=re.DOTALL)
    ]
    style, script = hashes
    return (
        f"default-src 'none'; style-src {style}; script-src {script}; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'"
    )


def page(data: Entries) -> str:
    """Return the page with its data, which are text in it, whatever they contain."""
    shown = to_line({**data, "lower": sorted(LOWER_IS_BETTER)}).strip()
    for letter in "<>&":  # so that nothing in it ends the script or begins another
        shown = shown.replace(letter, f"\\u{ord(letter):04x}")
    return _template().replace(_POLICY, policy()).replace(_DATA, shown)


def write_report(
    folder: StrPath,
    path: StrPath,
    overwrite: bool = False,
    access: Access = "private",
) -> Path:
    """Write what is known of a run as a page in a single file, which needs no network, and can be mailed.

    Arguments:
        folder: of a run, a comparison or a drill, finished or in progress; or the record of a team of networks.
        path: of the file to write, such as `"houses.html"`.
        overwrite: whether to replace a file that is there.
        access: who may read it: only its owner (`"private"`), its `"group"`, or `"all"`.

    Returns:
        The path.

    Raises:
        DataError: if no run has recorded anything in the folder.
        InvalidArgument: if the file is already there, or is something else than a file.
        RecordsError: if it cannot be written.
    """
    place, watch = Path(path).expanduser(), Watch(Path(folder))
    if place.exists() and not place.is_file():
        sentence = f"{str(place)!r} is not a file, and cannot be replaced by one; name another (--out)."
        raise InvalidArgument("path", "must be a file", str(place), sentence=sentence)
    if place.exists() and not overwrite:
        sentence = f"{str(place)!r} is already there; name another file (--out), or give --overwrite."
        raise InvalidArgument("path", "must not be there", str(place), sentence=sentence)
    while watch.read(60.0):
        pass
    data = {
        "live": False,
        "written": time.strftime("%Y-%m-%d %H:%M"),
        "about": watch.about(),
        "views": [watch.view(number, REPORTED) for number in range(len(watch.runs))],
    }
    write_whole(place, [page(data).encode()], access)
    return place
