"""On what was measured: figures mean nothing without it."""

import fcntl
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from phalanx.objects.filesystem import file_system_of

Facts = dict[str, str | int | float | list[float] | dict[str, str]]

_PACKAGES = (
    "phalanx-lake",
    "msgspec",
    "obstore",
    "pyarrow",
    "rpds-py",
    "pylance",
    "datafusion",
    "pyspark",
    "deltalake",
    "lancedb",
)
_MOUNTS = Path("/proc/self/mountinfo")
_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
_TOP_OF_HIERARCHY = 0x00020000
_IN_MEMORY = {"tmpfs", "ramfs"}


def facts() -> Facts:
    """The machine, its kernel, and the versions of what runs on it."""
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30), 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": _versions(),
        "load_before": load(),
    }


def load() -> list[float]:
    """What else the machine is doing: the mean number of processes that want to run, over 1, 5 and 15 minutes."""
    return [round(mean, 2) for mean in os.getloadavg()]


def file_system(folder: Path) -> str:
    """The kind of file system that a folder is on; one in memory is named as such, for syncs mean nothing there."""
    kind = file_system_of(folder, _MOUNTS.read_text() if _MOUNTS.exists() else "") or "unknown"
    return f"{kind} (in memory: syncs mean nothing)" if kind in _IN_MEMORY else kind


def mount(folder: Path) -> str:
    """How that file system is mounted, as the kernel lists it: device and options."""
    resolved = folder.resolve()
    best, found = -1, "unknown"
    for line in _MOUNTS.read_text().splitlines() if _MOUNTS.exists() else []:
        left, _, right = line.partition(" - ")
        point = Path(left.split()[4].replace("\\040", " "))
        if (resolved == point or point in resolved.parents) and len(point.parts) >= best:
            best = len(point.parts)
            _, device, options = right.split(maxsplit=2)
            found = f"{device} ({left.split()[5]}; {options})"
    return found


def keep_apart(folder: Path) -> None:
    """Ask ext4 to spread the folders inside this one over the disk, as lakes of different people would be.

    Otherwise they share a group of inodes, and each pays for finding a free one among those that the others used.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        flags = bytearray(8)
        fcntl.ioctl(fd, _GET_FLAGS, flags)
        top = int.from_bytes(flags, sys.byteorder) | _TOP_OF_HIERARCHY
        fcntl.ioctl(fd, _SET_FLAGS, top.to_bytes(8, sys.byteorder))
    except OSError:
        return  # another file system: it has no such flag, and needs none
    finally:
        os.close(fd)


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
