"""What users type to say where a lake is, and which file systems can carry one."""

import os
from pathlib import Path

import pytest

from phalanx.errors import InvalidInputError, UnavailableError, UnsupportedError
from phalanx.objects import filesystem, open_store
from phalanx.objects.filesystem import file_system_of
from phalanx.objects.local import LocalStore
from phalanx.objects.memory import MemoryStore
from phalanx.objects.remote import RemoteStore

AZURE = {"account_name": "someone", "account_key": "a2V5a2V5"}

MOUNTS = """\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:5 / /dev rw - devtmpfs dev rw
30 21 0:40 / /mnt/share rw,relatime shared:9 - nfs4 host:/export rw,vers=4.2
31 30 254:1 / /mnt/share/disk rw - xfs /dev/vdb rw
32 21 0:41 / /mnt/with\\040space rw - fuse.sshfs user@host: rw
33 21 0:42 / /mnt/twice rw - cifs //host/a rw
34 21 254:2 / /mnt/twice rw master:1 propagate_from:2 - btrfs /dev/vdc rw
"""


@pytest.mark.parametrize("uri", ["./lake", "lake", Path("lake"), "file://{here}/lake", "~/lake"])
def test_a_path_is_a_folder_on_a_local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str | Path) -> None:
    """Relative and absolute, with and without the scheme; it is made absolute, so that a later chdir does no harm."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    store = open_store(uri if isinstance(uri, Path) else uri.format(here=tmp_path))
    assert isinstance(store, LocalStore)
    assert store.uri == str(tmp_path / "lake")
    assert not (tmp_path / "lake").exists()


def test_memory_is_shared_by_name() -> None:
    """Whoever opens the same name in one process sees the same objects."""
    assert isinstance(open_store("memory://a"), MemoryStore)
    assert open_store("memory://a") is open_store("memory://a")
    assert open_store("memory://a") is not open_store("memory://b")


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("s3://bucket/some/prefix", {"skip_signature": "true"}),
        ("s3a://bucket", {"aws_access_key_id": "id", "aws_secret_access_key": "hidden"}),
        ("gs://bucket/some/prefix", {"skip_signature": "true"}),
        ("gs://bucket", {"google_bearer_token": "hidden", "base_url": "http://127.0.0.1:9"}),
        ("az://container/some/prefix", AZURE),
        ("abfss://container@someone.dfs.core.windows.net/prefix", {"account_key": "a2V5a2V5"}),
        ("azure://container/prefix", {"account_name": "someone", "sas_token": "sv=1&sig=hidden"}),
    ],
)
def test_an_object_store_is_shown_by_its_address(uri: str, options: dict[str, str]) -> None:
    """The address names bucket, container, account and prefix, and nothing that is secret."""
    store = open_store(uri + "/", options)
    assert isinstance(store, RemoteStore)
    assert store.uri == uri
    assert "hidden" not in repr(store)


@pytest.mark.parametrize("key", ["allow_http", "timeout", "proxy_url", "aws_allow_http", "http2_only", "user_agent"])
def test_options_of_the_http_client_are_understood(key: str) -> None:
    """They may stand among the storage options, as they do for Lance."""
    value = {"timeout": "30s", "proxy_url": "http://127.0.0.1:9", "user_agent": "me"}.get(key, "true")
    open_store("s3://bucket", {"skip_signature": "true", key: value})


@pytest.mark.parametrize(
    ("uri", "options", "advice"),
    [
        ("", None, "needs a path or URI"),
        ("a\0b", None, "needs a path or URI"),
        ("ftp://host/lake", None, "do not know the scheme ftp://.*use a path, or one of"),
        ("http://me:hidden@host/lake", {"a": "b"}, "do not know the scheme http:// of http://host/lake"),
        ("./lake", {"region": "x"}, "leave them out"),
        ("memory://a", {"region": "x"}, "leave them out"),
        ("s3://", None, "s3://bucket/prefix"),
        ("s3:///prefix", None, "s3://bucket/prefix"),
        ("s3://id:hidden@bucket/prefix", None, "use storage_options"),
        ("az://container/prefix?sv=1&sig=hidden", AZURE, "use storage_options"),
        ("gs://bucket/prefix#hidden", None, "use storage_options"),
        ("abfss://c:hidden@a.dfs.core.windows.net/p", AZURE, "use storage_options"),
        ("s3://bucket", {"regoin": "x"}, "regoin"),
        ("s3://bucket", {"secret_access_key": "hidden"}, "Missing AccessKeyId"),
        ("az://container", {}, "Account must be specified"),
        ("az://container", {"account_name": "a", "account_key": "not base64, hidden!"}, "Invalid Access Key"),
        ("gs://bucket", {"service_account_key": "{hidden"}, "Unable to decode service account"),
        ("gs://bucket", {"service_account": "/no/such/file"}, "Unable to open service account"),
    ],
)
def test_a_wrong_address_is_refused_with_what_is_wrong(uri: str, options: dict[str, str] | None, advice: str) -> None:
    """Before anything is asked over the network, and without repeating a secret."""
    with pytest.raises(InvalidInputError, match=advice) as refused:
        open_store(uri, options)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/somewhere", "ext4"),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/deep/down", "nfs4"),
        ("/mnt/shared", "ext4"),
        ("/mnt/share/disk/lake", "xfs"),
        ("/mnt/with space/lake", "fuse.sshfs"),
        ("/mnt/twice/lake", "btrfs"),
    ],
)
def test_the_innermost_and_latest_mount_holds_a_folder(folder: str, kind: str) -> None:
    """By whole parts of the path, not by its beginning."""
    assert file_system_of(Path(folder), MOUNTS) == kind


def test_a_folder_of_no_known_mount_has_no_kind() -> None:
    """Without the list of mounts nothing is refused by name."""
    assert file_system_of(Path("/somewhere"), "") == ""


def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> Path:
    """A folder that seems to be the root of another file system."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 0:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / {folder} rw - {kind} source rw\n")
    monkeypatch.setattr(filesystem, "_MOUNTS", mounts)
    return folder


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.s3fs", "9p"])
def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """With what to use instead, whether the lake exists there or not (rule H3)."""
    folder = mounted(tmp_path, monkeypatch, kind)
    for lake in (folder, folder / "lake"):
        with pytest.raises(UnsupportedError, match=r"use a local disk, or an object store"):
            open_store(lake)
    open_store(tmp_path / "elsewhere")


def test_an_unknown_fuse_file_system_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken if link refuses a name that exists, and refused if it does not; nothing is left behind."""
    folder = mounted(tmp_path, monkeypatch, "fuse.other")
    open_store(folder)
    monkeypatch.setattr(os, "link", lambda *_: None)
    with pytest.raises(UnsupportedError, match=r"link\(\) replaces"):
        open_store(folder)
    monkeypatch.setattr(os, "link", _refuse)
    with pytest.raises(UnavailableError, match="hard links"):
        open_store(folder)
    assert list(folder.iterdir()) == []


def test_a_file_is_no_place_for_a_lake(tmp_path: Path) -> None:
    """Neither the file itself nor anything below it."""
    (tmp_path / "file").write_text("x")
    for lake in (tmp_path / "file", tmp_path / "file" / "lake"):
        with pytest.raises(InvalidInputError, match="is a file, not a folder"):
            open_store(lake)


def test_a_path_that_cannot_be_looked_at_is_unavailable(tmp_path: Path) -> None:
    """What the system says is passed on as one of our errors."""
    with pytest.raises(UnavailableError, match="File name too long"):
        open_store(tmp_path / ("x" * 300))


def _refuse(*_: object) -> None:
    raise PermissionError(1, os.strerror(1))
