"""A store in S3, Google Cloud Storage, Azure or anything that speaks their protocols, through obstore.

Puts are never retried inside the client: a repeated create that meets its own first effect answers "exists", and what
that means is for the log to find out by reading the slot. Reads are retried for a few seconds. The client's default
settings can block for minutes, so both are set here. Secrets never leave this module: errors are redacted.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import ObjectStore, from_url

from phalanx.clock import SYSTEM
from phalanx.errors import CorruptionError, InvalidInputError, UnavailableError
from phalanx.objects.store import Created, Exists, Listed, Put, Unknown

_CERTAIN_REFUSALS = (PermissionDeniedError, UnauthenticatedError, InvalidPathError)
_PARALLEL = 16
_SECRET_KEY = re.compile(r"key|secret|token|password|sas|credential|signature", re.IGNORECASE)


class RemoteStore:
    """A prefix in an object store."""

    probes = False

    def __init__(self, uri: str, options: Mapping[str, str], *, timeout: float) -> None:
        parts = urlsplit(uri)
        if not parts.netloc:
            msg = f"{parts.scheme}:// needs a bucket: {parts.scheme}://bucket/prefix"
            raise InvalidInputError(msg)
        self.uri = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._secrets = [value for key, value in options.items() if _SECRET_KEY.search(key) and value]
        self._writes = self._connect(uri, options, timeout, retries=0)
        self._reads = self._connect(uri, options, timeout, retries=3)
        self._pool = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="phalanx-get")

    def prepare(self, parts: Sequence[bytes]) -> "_RemoteBlob":
        """See `Store`; nothing is sent yet."""
        return _RemoteBlob(self, b"".join(parts))

    def create(self, name: str, data: bytes) -> Put:
        """One conditional request."""
        try:
            obstore.put(self._writes, name, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return Exists()
        except _CERTAIN_REFUSALS as error:
            raise self._refusal("create", name, error) from None
        except Exception as error:  # noqa: BLE001 - whatever it is, the effect is unknown
            return Unknown(self._redact(error))
        return Created()

    def get(self, name: str, *, limit: int) -> bytes | None:
        """See `Store`."""
        try:
            found = obstore.get(self._reads, name)
            if found.meta["size"] > limit:
                msg = f"{self.uri}/{name} has {found.meta['size']} bytes, more than {limit}: run `phalanx check`"
                raise CorruptionError(msg)
            return found.bytes().to_bytes()
        except FileNotFoundError:
            return None
        except (BaseError, OSError, ValueError) as error:
            raise self._refusal("read", name, error) from None

    def get_many(self, names: Sequence[str], *, limit: int) -> list[bytes | None]:
        """See `Store`."""
        if len(names) <= 1:
            return [self.get(name, limit=limit) for name in names]
        return list(self._pool.map(lambda name: self.get(name, limit=limit), names))

    def list(self, prefix: str, after: str = "", before: str = "") -> list[Listed]:
        """See `Store`."""
        found = []
        try:
            for page in obstore.list(self._reads, prefix, offset=after or None):
                found += [Listed(meta["path"], meta["size"], meta["last_modified"].timestamp()) for meta in page]
                if before and found and found[-1].name >= before:
                    break
        except (BaseError, OSError, ValueError) as error:
            raise self._refusal("list", prefix, error) from None
        found.sort(key=lambda listed: listed.name)
        return [one for one in found if one.name > after and (not before or one.name < before)]

    def delete(self, names: Iterable[str]) -> None:
        """See `Store`."""
        gone = list(names)
        try:
            if gone:
                obstore.delete(self._reads, gone)
        except FileNotFoundError:
            pass
        except (BaseError, OSError, ValueError) as error:
            raise self._refusal("delete", gone[0], error) from None

    def remove_folder(self, folder: str) -> None:
        """Folders do not exist here."""

    def sync(self, names: Iterable[str]) -> None:
        """An answered put is durable."""

    def relax(self) -> None:
        """Nothing to relax."""

    def now(self) -> float:
        """The time stamp of an object made now."""
        name = f"tmp/{SYSTEM.token(16).hex()}"
        try:
            obstore.put(self._reads, name, b"", use_multipart=False)
            stamp = obstore.head(self._reads, name)["last_modified"].timestamp()
            obstore.delete(self._reads, name)
        except (BaseError, OSError, ValueError) as error:
            raise self._refusal("write to", name, error) from None
        return stamp

    def _connect(self, uri: str, options: Mapping[str, str], timeout: float, *, retries: int) -> ObjectStore:
        client: dict[str, Any] = {"timeout": timedelta(seconds=timeout), "connect_timeout": timedelta(seconds=timeout)}
        given = dict(options)
        if given.pop("allow_http", "false").lower() == "true":
            client["allow_http"] = True
        backoff = {"base": 2, "init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=1)}
        retry: Any = {"max_retries": retries, "retry_timeout": timedelta(seconds=timeout), "backoff": backoff}
        try:
            return from_url(uri, config=given or None, client_options=client, retry_config=retry)  # type: ignore[arg-type]
        except UnknownConfigurationKeyError as error:
            msg = f"unknown storage option for {self.uri}: {self._redact(error)}"
            raise InvalidInputError(msg) from None
        except (BaseError, ValueError, TypeError) as error:
            msg = f"cannot use {self.uri} with these storage options: {self._redact(error)}"
            raise InvalidInputError(msg) from None

    def _refusal(self, verb: str, name: str, error: Exception) -> UnavailableError:
        return UnavailableError(
            f"cannot {verb} {self.uri}/{name}: {self._redact(error)}; check the bucket, the credentials and the network"
        )

    def _redact(self, error: Exception) -> str:
        """One line without the client's debug dump, the values of secret options or the query of a signed address."""
        text = str(error).split("\n\nDebug source")[0]
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return " ".join(re.sub(r"\?\S+", "?***", text).split())


class _RemoteBlob:
    def __init__(self, store: RemoteStore, data: bytes) -> None:
        self._store = store
        self._data = data

    def put(self, name: str) -> Put:
        return self._store.create(name, self._data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return None
