"""An open folder: its files are opened by name, relative to its descriptor, and no link is followed.

Whoever has made a folder may have put a link, a pipe or a device where a file should be, or a hard link to a file that
lies elsewhere (docs/assumptions.md says against whom this helps). So a file is looked at once, before it is opened;
anything but a regular file is refused with an `OSError` that says what it is, and a file that is written in place must
have no other hard link. A file that is written as a whole replaces whatever had its name.
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
from erasurehead._internal.user_files import StrPath
from erasurehead.errors import DataError

Kind: TypeAlias = Literal["", "file", "folder", "link", "pipe", "device", "socket"]
"""What a name refers to; empty if it does not exist."""

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
"""Errors of file systems that cannot flush folders, and need not."""


@final
class Folder:
    """An open folder; a context manager that closes it.

    Every name is checked by `is_name`. All methods raise `OSError` if the system refuses, or if a name refers
    to something else than it should; `strerror` says why.

    Arguments:
        path: path of the folder, for messages.
        descriptor: open descriptor of the folder; this object closes it.
        access: who may read what is created in it, whatever the umask is.
    """

    def __init__(self, path: Path, descriptor: int, access: Access) -> None:
        self.path = path
        self.access: Access = access
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: StrPath, access: Access = "private") -> Self:
        """Open a folder. Links in its own path are the user's, and are followed."""
        place = _possible(path)
        return cls(place, os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), access)

    @classmethod
    def made(cls, path: StrPath, access: Access = "private") -> Self:
        """Open a folder, and create it with its parents if it does not exist. An existing one keeps its mode.

        Parents that are created have the same mode: their names of runs, too, may say what others are not to know.
        """
        place = _possible(path)
        for above in reversed([above for above in place.parents if not above.exists()]):
            cls._one_made(above, access).close()
        return cls._one_made(place, access)

    @classmethod
    def _one_made(cls, place: Path, access: Access) -> Self:
        new = _make(str(place), access)
        folder = cls.open(place, access)
        if new:
            _open_to(folder._descriptor, access)
        return folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def inside(self, name: str, make: bool = False) -> Folder:
        """Open a folder in this one; a link to a folder is refused.

        Arguments:
            name: name of the folder.
            make: whether to create it if it does not exist.
        """
        path = self._path(name)
        with _naming(path):
            new = make and _make(name, self.access, self._descriptor)
        if new:
            self.sync()
        if self.kind(name) == "link":
            raise OSError(*_REFUSED["link"], str(path))
        with _naming(path):
            flags = os.O_RDONLY | os.O_DIRECTORY | _CLOSED
            folder = Folder(path, os.open(name, flags, dir_fd=self._descriptor), self.access)
        if new:
            _open_to(folder._descriptor, self.access)
        return folder

    def names(self) -> list[str]:
        """Return the names of all entries, sorted."""
        return sorted(os.listdir(self._descriptor))

    def kind(self, name: str) -> Kind:
        """Return what a name refers to; links are not followed."""
        status = self._look(name)
        return "" if status is None else _kind(status)

    def size(self, name: str) -> int:
        """Return the size of a file in bytes; 0 if it does not exist or is not a regular file."""
        status = self._look(name)
        return status.st_size if status is not None and _kind(status) == "file" else 0

    def changed(self, name: str) -> int:
        """Return when a file was last modified, in nanoseconds; 0 if it does not exist."""
        status = self._look(name)
        return 0 if status is None else status.st_mtime_ns

    def same(self, name: str, descriptor: int) -> bool:
        """Return whether a name refers to an open file."""
        status, other = self._look(name), os.fstat(descriptor)
        return status is not None and (status.st_dev, status.st_ino) == (other.st_dev, other.st_ino)

    def _look(self, name: str) -> os.stat_result | None:
        self._path(name)
        try:
            return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def check_file(self, name: str, single: bool = False) -> None:
        """Raise if a name refers to anything but a regular file; it need not exist.

        Arguments:
            name: name of the file.
            single: whether to refuse a file with another hard link, because it will be changed in place.
        """
        status = self._look(name)
        if status is None:
            return
        kind = _kind(status)
        if kind != "file":
            raise OSError(*_REFUSED[kind], str(self.path / name))
        if single and status.st_nlink > 1:
            raise OSError(errno.EMLINK, _SECOND_NAME, str(self.path / name))

    def opened(self, name: str) -> int:
        """Return a descriptor to read a file with."""
        return self._opened(name, os.O_RDONLY, single=False)

    def writable(self, name: str) -> int:
        """Return a descriptor to change a file in place; the file is created if it does not exist."""
        return self._opened(name, os.O_RDWR, single=True)

    def _opened(self, name: str, flags: int, single: bool) -> int:
        self.check_file(name, single)
        new = bool(flags & os.O_RDWR) and not self.kind(name)
        with _naming(self.path / name):
            flags |= _CLOSED | (os.O_CREAT if new else 0)
            descriptor = os.open(name, flags, FILE_MODES[self.access], dir_fd=self._descriptor)
        if new:
            self._grant(descriptor)
        return descriptor

    def read(self, name: str, size: int | None = None) -> bytes:
        """Return the content of a file.

        Arguments:
            name: name of the file.
            size: number of bytes to read from its beginning; None for all.
        """
        descriptor = self.opened(name)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            return _read(descriptor, os.fstat(file.fileno()).st_size if size is None else size, size is None)

    def write_whole(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write a file atomically: readers find either the old file or the new one, even after a crash.

        It replaces whatever had its name, including a link, and keeps the mode of a file that it replaces. The name
        itself survives a crash once `sync` was called. If anything fails, the old file is left as it was.
        """
        path, scratch = self._path(name), f".{name}.new"
        before = self._look(name)
        if before is not None and (kind := _kind(before)) in ("folder", "device"):  # root would replace /dev/null
            raise OSError(*_REFUSED[kind], str(path))
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
        """Return a descriptor of a new file; one that a killed process has left is removed first."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOSED
        mode = FILE_MODES[self.access]
        try:
            descriptor = os.open(name, flags, mode, dir_fd=self._descriptor)
        except FileExistsError:
            os.unlink(name, dir_fd=self._descriptor)
            descriptor = os.open(name, flags, mode, dir_fd=self._descriptor)
        self._grant(descriptor)
        return descriptor

    def _grant(self, descriptor: int) -> None:
        """Set the mode of a new file, whatever the umask is."""
        os.fchmod(descriptor, FILE_MODES[self.access])

    def remove(self, name: str) -> None:
        """Remove a file; it need not exist."""
        with contextlib.suppress(FileNotFoundError), _naming(self._path(name)):
            os.unlink(name, dir_fd=self._descriptor)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder."""
        with _naming(self._path(name)):
            os.rmdir(name, dir_fd=self._descriptor)

    def sync(self) -> None:
        """Flush the folder's entries to disk."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise

    def sync_file(self, name: str) -> None:
        """Flush a file to disk, even if another process is writing it."""
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
    """Put the whole path into errors of this block, which have the name only."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all bytes: a single call of the system may write a part of them."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _read(descriptor: int, size: int, whole: bool) -> bytes:
    """Read `size` bytes, or all if `whole`, even if the file grows meanwhile."""
    pieces: list[bytes] = []
    left = size
    while (left > 0 or whole) and (piece := os.read(descriptor, max(left, 1) if left < _BITE else _BITE)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _possible(path: StrPath) -> Path:
    """Return a path after checking it for NUL characters, for which Python would raise a ValueError."""
    if NUL in os.fspath(path):
        raise OSError(errno.EINVAL, "a NUL character is in its name", os.fspath(path).replace(NUL, "\\0"))
    return Path(path)


def _make(path: str, access: Access, within: int | None = None) -> bool:
    """Create a folder; return False if the name exists."""
    try:
        os.mkdir(path, FOLDER_MODES[access], dir_fd=within)
    except FileExistsError:
        return False
    return True


def _open_to(descriptor: int, access: Access) -> None:
    """Set the mode of a new folder, whatever the umask is; its set-group-ID bit is kept."""
    os.fchmod(descriptor, FOLDER_MODES[access] | os.fstat(descriptor).st_mode & stat.S_ISGID)


def _kind(status: os.stat_result) -> Kind:
    file_type = stat.S_IFMT(status.st_mode)
    for kind, number in _KINDS:
        if number == file_type:
            return kind
    return "device"
