"""A store on a local disk, with the order of durability that an acknowledgement needs.

An object is created in four steps: write a file that has no name yet, sync it, link it under its name (`link` fails if
the name exists, which is the put-if-absent), sync the folder. A name that is taken already is seen before anything is
synced, because many processes that want the same name would spend most of their time on it. Keeps I3: whatever `Created` was answered for survives a
power loss, together with everything in the same folder and every folder above it.

- The file is nameless (O_TMPFILE), so a crash leaves nothing behind; where the file system cannot do that, it gets
  a name in `tmp/`, outside all other folders.
- A failed sync of the file is final for that blob: the kernel may have dropped the pages, so nothing is linked.
- A failed sync of the folder after the link is `Unknown`, and the store takes no more writes (rule H3).
- Which file systems are refused is left to `filesystem.py`.
"""

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from phalanx.clock import SYSTEM
from phalanx.errors import CorruptionError, StateError, UnavailableError
from phalanx.objects.store import Created, Exists, Files, Listed, Put, Sum, Unknown

TEMPORARY = "tmp"
_PROCESS_FILES = "/proc/self/fd"
_ONE_READ = 1 << 16
"""Most objects are smaller: one read gets them whole, with no need to ask for their size."""

_DELETERS, _MANY = 4, 400
"""How many threads delete, and from how many objects on."""


class LocalStore:
    """A folder on a local disk."""

    probes = True

    def __init__(self, root: Path) -> None:
        self.uri = str(root)
        self._syncs = True
        self._broken: str | None = None
        self._durable_folders: set[str] = set()
        self._nameless = os.path.isdir(_PROCESS_FILES)

    def prepare(self, parts: Sequence[bytes], *, lasting: bool = True) -> "_LocalBlob":
        """Write the bytes; a failure here has no effect anybody can see."""
        if self._broken is not None:
            raise StateError(self._broken)
        try:
            self._make_folder("")
            fd, path = self._open_temporary()
        except OSError as error:
            raise self._refusal("write to", self.uri, error) from error
        try:
            for part in parts:
                _write_all(fd, part)
        except OSError as error:
            _discard(fd, path)
            raise self._refusal("write to", self.uri, error) from error
        return _LocalBlob(self, fd, path, lasting=lasting)

    def sync_file(self, fd: int) -> None:
        """Make the bytes of a file that has no name yet durable."""
        if self._syncs:
            try:
                os.fsync(fd)
            except OSError as error:
                raise self._refusal("write to", self.uri, error) from error

    def taken(self, name: str) -> bool:
        """Whether a name exists, at this moment."""
        return os.path.lexists(f"{self.uri}/{name}")

    def link(self, source: str, folder_fd: int, name: str, *, lasting: bool = True) -> Put:
        """Give a written and synced file its name; see the module's head for what each failure means."""
        if self._broken is not None:
            raise StateError(self._broken)
        folder = name.rpartition("/")[0]
        target = f"{self.uri}/{name}"
        try:
            self._make_folder(folder)
            # With a descriptor the kernel is asked to follow /proc/self/fd/N, which is how a nameless file is linked.
            try:
                os.link(source, target, src_dir_fd=folder_fd, follow_symlinks=True)
            except FileNotFoundError:
                # The folder was pruned away since this process last used it.
                self._durable_folders.discard(folder)
                self._make_folder(folder)
                os.link(source, target, src_dir_fd=folder_fd, follow_symlinks=True)
        except FileExistsError:
            return Exists()
        except OSError as error:
            raise self._refusal("create", target, error) from error
        try:
            if lasting:
                self._sync_folder(folder)
        except OSError as error:
            self._broken = (
                f"cannot write to {self.uri}: an earlier sync of {folder}/ failed ({error.strerror}), so what the disk "
                "holds is not certain; check the disk, then open the lake again"
            )
            return Unknown(f"sync of {folder}/ failed: {error.strerror}")
        return Created()

    def get(self, name: str, *, limit: int) -> bytes | None:
        """See `Store`."""
        path = f"{self.uri}/{name}"
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._refusal("read", path, error) from error
        try:
            data = os.read(fd, min(_ONE_READ, limit + 1))
            if len(data) > limit or len(data) == _ONE_READ:
                size = os.fstat(fd).st_size
                if size > limit:
                    msg = f"{path} has {size} bytes, more than the {limit} it may have: run `phalanx check`"
                    raise CorruptionError(msg)
                data += _read_rest(fd)
        except OSError as error:
            raise self._refusal("read", path, error) from error
        finally:
            os.close(fd)
        return data

    def get_many(self, names: Sequence[str], *, limit: int) -> Iterator[bytes | None]:
        """One after the other: a warm disk answers faster than a thread starts."""
        return (self.get(name, limit=limit) for name in names)

    def digest(self, name: str) -> Sum | None:
        """See `Store`; Python is not held up meanwhile."""
        path = f"{self.uri}/{name}"
        try:
            with open(path, "rb", buffering=0) as file:
                return Sum(os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").digest())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._refusal("read", path, error) from error

    def list(self, prefix: str, after: str = "", before: str = "") -> list[Listed]:
        """See `Store`."""
        try:
            return list(self._walk(prefix, after, before))
        except OSError as error:
            raise self._refusal("list", f"{self.uri}/{prefix}", error) from error

    def last(self, folder: str) -> str | None:
        """See `Store`; asked once for every commit, so it looks at names only."""
        try:
            names = os.listdir(f"{self.uri}/{folder}")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refusal("list", f"{self.uri}/{folder}", error) from error
        return f"{folder}/{max(names)}" if names else None

    def delete(self, names: Iterable[str]) -> None:
        """See `Store`; many at once in parts: what each takes is mostly waited for."""
        wanted = list(names)
        if len(wanted) < _MANY:
            self._unlink(wanted)
            return
        size = -(-len(wanted) // _DELETERS)
        parts = [wanted[at : at + size] for at in range(0, len(wanted), size)]  # neighbours share a folder and its lock
        with ThreadPoolExecutor(len(parts), thread_name_prefix="phalanx-delete") as pool:
            for _ in pool.map(self._unlink, parts):
                pass

    def _unlink(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                os.unlink(f"{self.uri}/{name}")
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._refusal("delete", f"{self.uri}/{name}", error) from error

    def remove_folder(self, folder: str) -> None:
        """Never a file, and no folder that has one: only `rmdir` is asked, from the innermost out."""
        self._durable_folders -= {one for one in self._durable_folders if f"{one}/".startswith(f"{folder}/")}
        for path, _, _ in os.walk(f"{self.uri}/{folder}", topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(path)

    def sync(self, names: Iterable[str]) -> None:
        """See `Store`."""
        for folder in {name.rpartition("/")[0] for name in names}:
            try:
                self._settle_folder(folder)
                self._sync_folder(folder)
            except OSError as error:
                if error.errno != errno.EROFS:  # a disk nobody can write to has nothing left to sync
                    raise self._refusal("sync", f"{self.uri}/{folder}", error) from error

    def persist(self, names: Iterable[str]) -> None:
        """See `Store`; Lance never syncs what it writes."""
        wanted = list(names)
        if not self._syncs:
            return
        for name in wanted:
            path = f"{self.uri}/{name}"
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)
            except OSError as error:
                raise self._refusal("sync", path, error) from error
        self.sync(wanted)

    def files(self) -> Files:
        """See `Store`."""
        return Files(self.uri, {}, self)

    def place(self) -> str | None:
        """By what the kernel calls the folder: a copy of a lake is another place, and a moved one the same."""
        found = os.stat(self.uri)
        return f"folder {found.st_dev}:{found.st_ino}"

    def relax(self) -> None:
        """See `Store`."""
        self._syncs = False

    def now(self) -> float:
        """The time stamp of a file made now."""
        try:
            self._make_folder("")
            fd, path = self._open_temporary()
        except OSError as error:
            raise self._refusal("write to", self.uri, error) from error
        try:
            return os.fstat(fd).st_mtime
        finally:
            _discard(fd, path)

    def _open_temporary(self) -> tuple[int, str | None]:
        if self._nameless:
            try:
                return os.open(self.uri, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o644), None
            except OSError as error:
                if error.errno not in {errno.EOPNOTSUPP, errno.EISDIR}:
                    raise
                self._nameless = False
        self._make_folder(TEMPORARY)
        path = f"{self.uri}/{TEMPORARY}/{SYSTEM.token(16).hex()}"
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644), path

    def _make_folder(self, folder: str) -> None:
        """Make a folder and its parents, durably: once for each folder and process."""
        if folder in self._durable_folders:
            return
        missing = []
        path = f"{self.uri}/{folder}".rstrip("/")
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for path in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path)
            self._sync_path(os.path.dirname(path))
        self._settle_folder(folder)

    def _settle_folder(self, folder: str) -> None:
        """Make a folder's existence durable, whoever made it: they may not have synced it yet."""
        if folder in self._durable_folders:
            return
        if folder:
            self._settle_folder(folder.rpartition("/")[0])
        with contextlib.suppress(PermissionError):  # the folder above the lake may be somebody else's
            self._sync_path(os.path.dirname(f"{self.uri}/{folder}".rstrip("/")))
        self._durable_folders.add(folder)

    def _sync_folder(self, folder: str) -> None:
        self._sync_path(f"{self.uri}/{folder}")

    def _sync_path(self, path: str) -> None:
        if not self._syncs:
            return
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def _walk(self, prefix: str, after: str, before: str) -> Iterator[Listed]:
        try:
            with os.scandir(f"{self.uri}/{prefix}") as found:
                items = sorted(found, key=_order)
        except FileNotFoundError:
            return
        for item in items:
            name = f"{prefix}/{item.name}"
            if before and name >= before:
                return
            if item.is_dir(follow_symlinks=False):
                if f"{name}/\U0010ffff" > after:
                    yield from self._walk(name, after, before)
            elif name > after:
                with contextlib.suppress(FileNotFoundError):
                    stat = item.stat(follow_symlinks=False)
                    yield Listed(name, stat.st_size, stat.st_mtime)

    def _refusal(self, verb: str, what: str, error: OSError) -> UnavailableError:
        hints = {
            errno.ENOSPC: "free some space, then try again",
            errno.EDQUOT: "free some space or raise the quota, then try again",
            errno.EROFS: "the file system is read-only; mount it writable",
            errno.EACCES: "check the permissions of the folder",
            errno.EPERM: "check the permissions of the folder, and that its file system has hard links",
            errno.ENOTDIR: "a file is where a folder should be; move it away",
            errno.EMFILE: "raise the limit of open files (ulimit -n)",
        }
        hint = hints.get(error.errno or 0, "check the disk, then try again")
        return UnavailableError(f"cannot {verb} {what}: {error.strerror or error}; nothing was committed: {hint}")


class _LocalBlob:
    def __init__(self, store: LocalStore, fd: int, path: str | None, *, lasting: bool) -> None:
        self._store = store
        self._fd = fd
        self._path = path
        self._lasting = lasting
        self._synced = not lasting
        self._spoilt: UnavailableError | None = None

    def put(self, name: str) -> Put:
        if not self._synced:
            if self._spoilt is not None:
                raise self._spoilt
            if self._store.taken(name):
                return Exists()
            try:
                self._store.sync_file(self._fd)
            except UnavailableError as error:
                self._spoilt = error
                raise
            self._synced = True
        return self._store.link(self._path or f"{_PROCESS_FILES}/{self._fd}", self._fd, name, lasting=self._lasting)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _discard(self._fd, self._path)


def _order(item: "os.DirEntry[str]") -> str:
    """Whole names are compared, so a folder comes after whatever is less than its name and a slash."""
    return f"{item.name}/" if item.is_dir(follow_symlinks=False) else item.name


def _discard(fd: int, path: str | None) -> None:
    os.close(fd)
    if path is not None:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _read_rest(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 1 << 20):
        parts.append(part)
    return b"".join(parts)
