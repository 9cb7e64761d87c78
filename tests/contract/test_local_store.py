"""What a local disk may do to a store: refuse, fill up, fail to sync; and in which order things become durable."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phalanx.errors import StateError, UnavailableError
from phalanx.objects import Created, Exists, Unknown, layout
from phalanx.objects.local import LocalStore
from tests.contract.conftest import refuse_nameless_files

LIMIT = 1000


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """A store that has one object already."""
    store = LocalStore(tmp_path / "lake")
    with store.prepare([b"before"]) as blob:
        blob.put(layout.entry(1))
    return store


def failing(code: int, when: Callable[..., bool] = lambda *_: True) -> Callable[[Any], Any]:
    """A wrapper for a call to the system that fails with `code`."""

    def wrap(real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if when(*args):
                raise OSError(code, os.strerror(code))
            return real(*args, **kwargs)

        return call

    return wrap


def break_call(patch: pytest.MonkeyPatch, name: str, wrap: Callable[[Any], Any]) -> None:
    """Let a function of the module os fail."""
    patch.setattr(os, name, wrap(getattr(os, name)))


def is_folder(fd: int) -> bool:
    """Whether an open file is a folder."""
    return Path(f"/proc/self/fd/{fd}").is_dir()


@pytest.mark.parametrize(
    ("call", "code", "advice"),
    [
        ("open", errno.EROFS, "mount it writable"),
        ("open", errno.EACCES, "check the permissions"),
        ("open", errno.EMFILE, "ulimit -n"),
        ("write", errno.ENOSPC, "free some space"),
        ("write", errno.EDQUOT, "raise the quota"),
        ("fsync", errno.EIO, "check the disk"),
        ("link", errno.EROFS, "mount it writable"),
        ("link", errno.ENOSPC, "free some space"),
        ("link", errno.EACCES, "check the permissions"),
        ("link", errno.EPERM, "has hard links"),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_a_disk_that_refuses_leaves_no_trace_and_says_what_to_do(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, call: str, code: int, advice: str, *, named: bool
) -> None:
    """Nothing is created, the error tells the cause and the cure, and the store works again once the disk does."""
    if named:
        refuse_nameless_files(monkeypatch)
        store.now()  # finds out
    with monkeypatch.context() as patch:
        break_call(patch, call, failing(code))
        with (
            pytest.raises(UnavailableError, match=f"{os.strerror(code)}; nothing was committed.*{advice}"),
            store.prepare([b"x"]) as blob,
        ):
            blob.put(layout.entry(2))
    assert [found.name for found in store.list("log")] == [layout.entry(1)]
    assert store.list("tmp") == []
    with store.prepare([b"x"]) as blob:
        assert blob.put(layout.entry(2)) == Created()


@pytest.mark.parametrize("call", ["open", "read"])
def test_a_disk_that_cannot_be_read_is_unavailable(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """An object that cannot be read is not absent."""
    break_call(monkeypatch, call, failing(errno.EIO))
    with pytest.raises(UnavailableError, match=r"cannot read .*check the disk"):
        store.get(layout.entry(1), limit=LIMIT)


def test_a_folder_that_cannot_be_listed_is_unavailable(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be listed is not empty."""
    break_call(monkeypatch, "scandir", failing(errno.EACCES))
    with pytest.raises(UnavailableError, match=r"cannot list .*check the permissions"):
        store.list("log")


def test_an_object_that_cannot_be_deleted_is_unavailable(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that is still there is not reported as deleted."""
    break_call(monkeypatch, "unlink", failing(errno.EROFS))
    with pytest.raises(UnavailableError, match=r"cannot delete .*mount it writable"):
        store.delete([layout.entry(1)])


@pytest.mark.parametrize("name", ["log", "floor"])
def test_a_file_in_the_place_of_a_folder_is_not_a_taken_name(tmp_path: Path, name: str) -> None:
    """It is refused with the cure, and never answered by Exists, which would send the writer looking for an entry."""
    store = LocalStore(tmp_path)
    (tmp_path / name).write_text("in the way")
    with store.prepare([b"x"]) as blob, pytest.raises(UnavailableError, match="move it away"):
        blob.put(f"{name}/1")
    assert store.get(f"{name}/1", limit=LIMIT) is None


def test_a_file_in_the_place_of_the_lake_is_refused(tmp_path: Path) -> None:
    """The same for the lake's own folder."""
    (tmp_path / "lake").write_text("in the way")
    with pytest.raises(UnavailableError, match="move it away"):
        LocalStore(tmp_path / "lake").prepare([b"x"])


def test_a_failed_sync_of_the_folder_is_unknown_and_ends_writing(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The object is there, but for how long nobody knows; the store takes no more writes and says why (rule H3)."""
    with store.prepare([b"x"]) as blob, store.prepare([b"y"]) as other:
        with monkeypatch.context() as patch:
            break_call(patch, "fsync", failing(errno.EIO, when=is_folder))
            answer = blob.put(layout.entry(2))
        assert isinstance(answer, Unknown)
        assert os.strerror(errno.EIO) in answer.cause
        with pytest.raises(StateError, match="open the lake again"):
            other.put(layout.entry(3))
    with pytest.raises(StateError, match="open the lake again"):
        store.prepare([b"z"])
    assert store.get(layout.entry(2), limit=LIMIT) == b"x"
    with LocalStore(Path(store.uri)).prepare([b"z"]) as again:
        assert again.put(layout.entry(2)) == Exists()
        assert again.put(layout.entry(3)) == Created()


def test_an_object_is_durable_before_its_name_and_the_name_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every new folder is synced into the one above, the bytes before the link, the folder after it (invariant I3)."""
    done: list[str] = []

    def synced(fd: int) -> bool:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        done.append("sync bytes" if path.name.startswith("#") else f"sync {path.relative_to(tmp_path)}")
        return False

    def linked(*_: object) -> bool:
        done.append("link")
        return False

    break_call(monkeypatch, "fsync", failing(0, when=synced))
    break_call(monkeypatch, "link", failing(0, when=linked))
    with LocalStore(tmp_path / "lake").prepare([b"x"]) as blob:
        assert "sync ." in done
        assert blob.put("log/0/1") == Created()
    bytes_synced = done.index("sync bytes")
    link = done.index("link")
    assert bytes_synced < link
    assert {"sync lake", "sync lake/log"} <= set(done[bytes_synced:link])
    assert done[link + 1 :] == ["sync lake/log/0"]


def test_a_name_that_is_taken_costs_no_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many processes want the same name: those who come late find out before they have spent a sync on it."""
    store = LocalStore(tmp_path / "lake")
    with store.prepare([b"x"]) as blob:
        assert blob.put("log/0/1") == Created()
    with monkeypatch.context() as patch:
        break_call(patch, "fsync", failing(errno.EIO))
        late = store.prepare([b"y"])
        assert late.put("log/0/1") == Exists()
        for _ in range(2):
            with pytest.raises(UnavailableError, match="nothing was committed"):
                late.put("log/0/2")
    with pytest.raises(UnavailableError, match="nothing was committed"):
        late.put("log/0/2")  # a failed sync is final: the kernel may have dropped the bytes
    assert store.get("log/0/2", limit=LIMIT) is None
    late.__exit__(None, None, None)


def test_durability_os_never_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake that was created to leave syncing to the operating system pays for none."""
    break_call(monkeypatch, "fsync", failing(errno.EIO))
    store = LocalStore(tmp_path / "lake")
    store.relax()
    with store.prepare([b"x"]) as blob:
        assert blob.put("log/0/1") == Created()
    store.sync(["log/0/1"])


def test_a_disk_that_nobody_can_write_to_needs_no_sync(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of a read-only disk can make sure that what it saw stays; any other failure is told."""
    with monkeypatch.context() as patch:
        break_call(patch, "fsync", failing(errno.EROFS))
        store.sync([layout.entry(1)])
    break_call(monkeypatch, "fsync", failing(errno.EIO))
    with pytest.raises(UnavailableError, match="cannot sync"):
        store.sync([layout.entry(1)])
