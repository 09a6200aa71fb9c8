"""A folder that is open: everything in it is reached from its own descriptor, by name, and no link is followed.

Whoever may write into a folder can put a link, a pipe or a device where a file should be, or a second name of a file
that lies elsewhere. So a file is looked at before it is opened, opened without following links, and looked at again;
what is no regular file is refused with an `OSError` that says what it is, and what is written in place must have no
second name. What is written as a whole takes the place of whatever had its name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator, Iterable
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias, final

from erasurehead._internal.storage.access import FILE_MODES, FOLDER_MODES, Access
from erasurehead._internal.storage.names import is_name
from erasurehead.errors import DataError

Kind: TypeAlias = Literal["", "file", "folder", "link", "pipe", "device", "socket"]
"""What a name stands for; empty if it stands for nothing."""

_KINDS: tuple[tuple[Kind, int], ...] = (
    ("file", stat.S_IFREG),
    ("folder", stat.S_IFDIR),
    ("link", stat.S_IFLNK),
    ("pipe", stat.S_IFIFO),
    ("socket", stat.S_IFSOCK),
)
_REFUSED: dict[Kind, tuple[int, str]] = {
    "folder": (errno.EISDIR, "it is a folder, where a file should be"),
    "link": (errno.ELOOP, "it is a link, and links in this folder are not followed"),
    "pipe": (errno.EPERM, "it is a pipe, where a file should be"),
    "device": (errno.EPERM, "it is a device, where a file should be"),
    "socket": (errno.EPERM, "it is a socket, where a file should be"),
}
_SECOND_NAME = "it has a second name elsewhere (a hard link), under which it would be changed, too; copy it instead"
_CLOSED = os.O_CLOEXEC | os.O_NOFOLLOW
NUL = "\0"
_BITE = 1 << 20

_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EACCES})
"""What file systems answer that do not flush folders; they need not be asked to."""


@final
class Folder:
    """An open folder; a context manager that closes it.

    Every name is checked by `is_name`. All methods raise `OSError` where the system refuses, or where a name stands
    for something else than it should; `strerror` says which.

    Arguments:
        path: of the folder, for messages.
        descriptor: of the folder, which is this object's from now on.
        access: who may read what is made in it; None for what is usual on this system (the umask).
    """

    def __init__(self, path: Path, descriptor: int, access: Access | None) -> None:
        self.path = path
        self.access: Access | None = access
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: str | os.PathLike[str], access: Access | None = "private") -> Self:
        """Open a folder. If its own path is, or goes through, a link, that is the user's, and is followed."""
        place = _possible(path)
        return cls(place, os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), access)

    @classmethod
    def made(cls, path: str | os.PathLike[str], access: Access | None = "private") -> Self:
        """Open a folder that is made, with those above it, if it is not there. One that is there keeps its mode."""
        place = _possible(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        made = _make(str(place), access)
        folder = cls.open(place, access)
        if made:
            _open_to(folder._descriptor, access)
        return folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close it; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def inside(self, name: str, make: bool = False) -> Folder:
        """Open a folder in this one; a link is none.

        Arguments:
            name: of the folder.
            make: whether to make it if it is not there.
        """
        path = self._path(name)
        with _naming(path):
            made = make and _make(name, self.access, self._descriptor)
        if made:
            self.sync()
        if self.kind(name) == "link":
            raise OSError(*_REFUSED["link"], str(path))
        with _naming(path):
            flags = os.O_RDONLY | os.O_DIRECTORY | _CLOSED
            folder = Folder(path, os.open(name, flags, dir_fd=self._descriptor), self.access)
        if made:
            _open_to(folder._descriptor, self.access)
        return folder

    def names(self) -> list[str]:
        """Return the names of all that is in it, sorted."""
        return sorted(os.listdir(self._descriptor))

    def kind(self, name: str) -> Kind:
        """Return what a name stands for; of a link, that it is one."""
        found = self._look(name)
        return "" if found is None else _kind(found)

    def size(self, name: str) -> int:
        """Return the bytes of a file; 0 if it is not there, or no file."""
        found = self._look(name)
        return found.st_size if found is not None and _kind(found) == "file" else 0

    def changed(self, name: str) -> int:
        """Return when a file was changed, in nanoseconds; 0 if it is not there."""
        found = self._look(name)
        return 0 if found is None else found.st_mtime_ns

    def same(self, name: str, descriptor: int) -> bool:
        """Return whether a name stands for an open file."""
        found, other = self._look(name), os.fstat(descriptor)
        return found is not None and (found.st_dev, found.st_ino) == (other.st_dev, other.st_ino)

    def _look(self, name: str) -> os.stat_result | None:
        self._path(name)
        try:
            return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def check_file(self, name: str, single: bool = False) -> None:
        """Raise if a name stands for something that is no file; what is not there is no harm.

        Arguments:
            name: of the file.
            single: whether the file must not have a second name, as it is to be changed in place.
        """
        found = self._look(name)
        if found is not None:
            self._check(name, found, single)

    def _check(self, name: str, found: os.stat_result, single: bool) -> None:
        kind = _kind(found)
        if kind != "file":
            raise OSError(*_REFUSED[kind], str(self.path / name))
        if single and found.st_nlink > 1:
            raise OSError(errno.EMLINK, _SECOND_NAME, str(self.path / name))

    def opened(self, name: str) -> int:
        """Return a descriptor to read a file with."""
        return self._opened(name, os.O_RDONLY, single=False)

    def writable(self, name: str) -> int:
        """Return a descriptor to change a file in place with, which is made if it is not there."""
        return self._opened(name, os.O_RDWR, single=True)

    def _opened(self, name: str, flags: int, single: bool) -> int:
        there, made = self._look(name), False
        if there is not None:
            self._check(name, there, single)
        elif flags & os.O_RDWR:
            flags, made = flags | os.O_CREAT, True
        # Without waiting, should it have become a pipe since it was looked at.
        mode = 0o666 if self.access is None else FILE_MODES[self.access]
        with _naming(self.path / name):
            descriptor = os.open(name, flags | os.O_NONBLOCK | _CLOSED, mode, dir_fd=self._descriptor)
        try:
            self._check(name, os.fstat(descriptor), single)
            if made:
                self._grant(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, name: str, size: int | None = None) -> bytes:
        """Return what a file holds.

        Arguments:
            name: of the file.
            size: how many bytes from its beginning; None for all.
        """
        descriptor = self.opened(name)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            return _read(descriptor, os.fstat(file.fileno()).st_size if size is None else size, size is None)

    def write_whole(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write a file as a whole: whoever reads it finds the old one or the new one, also after a crash.

        What had its name before, a link too, makes room for it; a file that was there hands its mode on. The name
        itself outlasts a crash once `sync` was called. If anything fails, what was there before is there still.
        """
        path, scratch = self._path(name), f".{name}.new"
        before = self._look(name)
        if before is not None and _kind(before) == "folder":
            raise OSError(*_REFUSED["folder"], str(path))
        keeps = before is not None and _kind(before) == "file"
        with _naming(path), self._without_scratch(scratch):
            descriptor = self._new(scratch)
            try:
                if before is not None and keeps:
                    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
                for piece in pieces:
                    write_all(descriptor, piece)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(scratch, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    @contextlib.contextmanager
    def _without_scratch(self, name: str) -> Generator[None]:
        """Leave no file of this name if something fails, Ctrl-C included."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._descriptor)
            raise

    def _new(self, name: str) -> int:
        """Return a descriptor of a file that is made now; what a killed process has left of it is removed first."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOSED
        mode = 0o666 if self.access is None else FILE_MODES[self.access]
        try:
            descriptor = os.open(name, flags, mode, dir_fd=self._descriptor)
        except FileExistsError:
            os.unlink(name, dir_fd=self._descriptor)
            descriptor = os.open(name, flags, mode, dir_fd=self._descriptor)
        self._grant(descriptor)
        return descriptor

    def _grant(self, descriptor: int) -> None:
        """Give a new file the mode that is wanted, whatever the umask is."""
        if self.access is not None:
            os.fchmod(descriptor, FILE_MODES[self.access])

    def remove(self, name: str) -> None:
        """Remove a file; one that is not there is removed already."""
        with contextlib.suppress(FileNotFoundError), _naming(self._path(name)):
            os.unlink(name, dir_fd=self._descriptor)

    def remove_folder(self, name: str) -> None:
        """Remove a folder that is empty."""
        with _naming(self._path(name)):
            os.rmdir(name, dir_fd=self._descriptor)

    def sync(self) -> None:
        """Flush the names in it to the disk."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise

    def sync_file(self, name: str) -> None:
        """Flush a file to the disk, whoever is writing it."""
        descriptor = self.opened(name)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _path(self, name: str) -> Path:
        if not is_name(name):
            raise DataError(f"{name!r} is not the name of a file in {str(self.path)!r}.")
        return self.path / name


@contextlib.contextmanager
def _naming(path: Path) -> Generator[None]:
    """Let what the system refuses in this block name the whole path: it is told a name only."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of some bytes: the system may take them in several bites."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _read(descriptor: int, size: int, whole: bool) -> bytes:
    """Read so many bytes, or, of a file that may grow meanwhile, all that there are."""
    pieces: list[bytes] = []
    left = size
    while (left > 0 or whole) and (piece := os.read(descriptor, max(left, 1) if left < _BITE else _BITE)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _possible(path: str | os.PathLike[str]) -> Path:
    """Return a path that can be one; Python alone would raise a ValueError."""
    if NUL in os.fspath(path):
        raise OSError(errno.EINVAL, "a NUL character is in its name", os.fspath(path).replace(NUL, "\\0"))
    return Path(path)


def _make(path: str, access: Access | None, within: int | None = None) -> bool:
    """Make a folder; return False if something is there already."""
    try:
        os.mkdir(path, 0o777 if access is None else FOLDER_MODES[access], dir_fd=within)
    except FileExistsError:
        return False
    return True


def _open_to(descriptor: int, access: Access | None) -> None:
    """Give a new folder the mode that is wanted, whatever the umask is; that new files are of its group stays so."""
    if access is not None:
        os.fchmod(descriptor, FOLDER_MODES[access] | os.fstat(descriptor).st_mode & stat.S_ISGID)


def _kind(status: os.stat_result) -> Kind:
    found = stat.S_IFMT(status.st_mode)
    for kind, number in _KINDS:
        if number == found:
            return kind
    return "device"
