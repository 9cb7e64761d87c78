"""Which file systems can carry a lake: those whose `link` is atomic and whose `fsync` means what it says (rule H3).

Network file systems answer `link` from a cache or repeat it after a lost answer, so put-if-absent would lie: they are
refused by name, with what to use instead. Other file systems in user space (FUSE) are tried: link must refuse a name
that exists.
"""

import os
from pathlib import Path

from phalanx.errors import InvalidInputError, UnavailableError, UnsupportedError

_REFUSED = {
    "nfs": "NFS",
    "nfs4": "NFS",
    "cifs": "SMB",
    "smb3": "SMB",
    "smbfs": "SMB",
    "9p": "9p",
    "afs": "AFS",
    "ceph": "CephFS",
    "lustre": "Lustre",
    "fuse.sshfs": "SSHFS",
    "fuse.s3fs": "s3fs",
    "fuse.gcsfuse": "gcsfuse",
    "fuse.rclone": "an rclone mount",
    "fuse.blobfuse2": "blobfuse",
}
_MOUNTS = Path("/proc/self/mountinfo")


def require_link_and_sync(folder: Path) -> None:
    """Refuse a folder on a file system that cannot carry a lake; `folder` or a folder above it must exist."""
    found = _nearest(folder)
    if not found.is_dir():
        msg = f"{found} is a file, not a folder: choose another place for the lake"
        raise InvalidInputError(msg)
    kind = file_system_of(found, _MOUNTS.read_text() if _MOUNTS.exists() else "")
    if kind in _REFUSED:
        msg = (
            f"{folder} is on {_REFUSED[kind]}, which cannot create a file atomically and durably: "
            "use a local disk, or an object store by its URI (s3://, gs://, az://)"
        )
        raise UnsupportedError(msg)
    if kind.startswith("fuse") and folder.is_dir():
        _try_link(folder, kind)


def file_system_of(folder: Path, mounts: str) -> str:
    """The type of the file system that holds `folder`, by the text of /proc/self/mountinfo; "" if not listed."""
    resolved = folder.resolve()
    best, kind = -1, ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = Path(left.split()[4].replace("\\040", " "))
        if (resolved == point or point in resolved.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), right.split()[0]
    return kind


def _nearest(folder: Path) -> Path:
    """The folder itself, or the nearest thing above it that exists."""
    try:
        return next(path for path in (folder, *folder.parents) if path.exists())
    except OSError as error:
        msg = f"cannot look at {folder}: {error.strerror}; check the path and the permissions of the folders above it"
        raise UnavailableError(msg) from error


def _try_link(folder: Path, kind: str) -> None:
    first, second = (folder / f".phalanx-trial-{os.getpid()}-{i}" for i in (1, 2))
    try:
        first.touch()
        os.link(first, second)
        os.link(first, second)
    except FileExistsError:
        return
    except OSError as error:
        msg = (
            f"cannot use {folder}: {error.strerror}; choose a folder you may write to on a file system with hard links"
        )
        raise UnavailableError(msg) from error
    finally:
        first.unlink(missing_ok=True)
        second.unlink(missing_ok=True)
    msg = f"{folder} is on {kind}, where link() replaces a file that exists: use a local disk or an object store"
    raise UnsupportedError(msg)
