"""From what users type to a store: a path, or a URI with `storage_options`.

Secrets stay inside obstore: the `uri` that a store shows has no credentials and no query.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from phalanx.errors import InvalidInputError
from phalanx.objects.filesystem import require_link_and_sync
from phalanx.objects.local import LocalStore
from phalanx.objects.memory import shared_memory_store
from phalanx.objects.remote import RemoteStore
from phalanx.objects.store import Store

_REMOTE = {"s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss"}


def open_store(uri: str | Path, storage_options: Mapping[str, str] | None = None, *, timeout: float = 10.0) -> Store:
    """The store at `uri`; nothing is read or written yet. `timeout` bounds one request to an object store."""
    text = os.fspath(uri)
    if not text or "\0" in text:
        msg = "a lake needs a path or URI, for example './lake' or 's3://bucket/prefix'"
        raise InvalidInputError(msg)
    scheme = urlsplit(text).scheme if "://" in text else ""
    if scheme in _REMOTE:
        return RemoteStore(text, dict(storage_options or {}), timeout=timeout)
    if scheme not in {"", "file", "memory"}:
        known = ", ".join(f"{name}://" for name in sorted(_REMOTE | {"file", "memory"}))
        msg = f"do not know the scheme {scheme}:// of {_without_secrets(text)}: use a path, or one of {known}"
        raise InvalidInputError(msg)
    if storage_options:
        msg = f"storage_options are for object stores; {text} is not one: leave them out"
        raise InvalidInputError(msg)
    if scheme == "memory":
        return shared_memory_store(text)
    path = Path(text.removeprefix("file://")).expanduser().absolute()
    require_link_and_sync(path)
    return LocalStore(path)


def _without_secrets(uri: str) -> str:
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
