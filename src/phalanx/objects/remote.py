"""A store in S3, Google Cloud Storage, Azure or anything that speaks their protocols, through obstore.

- A put is one conditional request, never repeated inside the client: a repeated create that meets its own first effect
  answers "exists". A 409 or 412 is `Exists` even if nobody is there: the log finds out by reading the slot.
- Reads are repeated for a few seconds, deletes where the server answered that it failed. The client's default settings
  can block for minutes, so that all limits are set here.
- Secrets never leave this module: of an error only its first line and the server's code and message are passed on,
  without queries and without the values of secret options.
- The client's threads do not survive a fork, after which every call would hang: it is refused instead.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import TracebackType
from typing import Any, Self
from urllib.parse import SplitResult, urlsplit

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import ObjectStore, from_url

from phalanx.clock import SYSTEM, environment
from phalanx.errors import CorruptionError, InvalidInputError, StateError, UnavailableError, UnsupportedError
from phalanx.objects.store import Created, Exists, Files, Listed, Put, Sum, Unknown

TEMPORARY = "tmp"

_CERTAIN_REFUSALS = (PermissionDeniedError, UnauthenticatedError, InvalidPathError, FileNotFoundError)
"""Answers to a put that certainly had no effect; not found is the bucket."""

_READ_RETRIES = 3
_PARALLEL = 16
_CHUNK = 8 << 20

_CLIENT_OPTION = re.compile(
    r"(?:aws_|azure_|google_)?(allow_http|allow_invalid_certificates|connect_timeout|default_content_type|http1_only"
    r"|http2_\w+|pool_idle_timeout|pool_max_idle_per_host|proxy_\w+|randomize_addresses|read_timeout|root_certificate"
    r"|timeout|user_agent)"
)
"""Storage options that obstore takes in another argument; among the others they make it panic."""

_SECRET_KEY = re.compile(r"key|secret|token|password|sas|credential|signature", re.IGNORECASE)
_LEADS = re.compile(r"endpoint|account_name|emulator")
_NO_BUCKET = re.compile(r"<Code>\s*(?:NoSuchBucket|ContainerNotFound)|The specified container does not exist")
_ANSWER = re.compile(r"<(?:Code|Message)>\s*([^<\n]*)")
_REASON = re.compile(r'(?:message|error): "([^"]*)"|kind: (Timeout)')


class RemoteStore:
    """A prefix in an object store."""

    probes = False

    def __init__(self, uri: str, options: Mapping[str, str], *, timeout: float) -> None:
        parts = urlsplit(uri)
        _require_plain(parts)
        self.uri = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._options = dict(options)
        self._secrets = [str(value) for key, value in options.items() if _SECRET_KEY.search(key) and value]
        self._writes = self._connect(uri, options, timeout, retries=0)
        self._reads = self._connect(uri, options, timeout, retries=_READ_RETRIES)
        self._pool = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="phalanx-get")

    def prepare(self, parts: Sequence[bytes], *, lasting: bool = True) -> "_RemoteBlob":
        """See `Store`; nothing is sent yet."""
        return _RemoteBlob(self, b"".join(parts))

    def create(self, name: str, data: bytes) -> Put:
        """One conditional request."""
        _CLIENT.enter()
        try:
            obstore.put(self._writes, name, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return Exists()
        except _CERTAIN_REFUSALS as error:
            raise self._refusal("create", name, error) from None
        except (NotSupportedError, NotImplementedError) as error:
            msg = f"{self.uri} cannot create an object only if it is absent, which a lake needs: {self._redact(error)}"
            raise UnsupportedError(msg) from None
        except Exception as error:  # noqa: BLE001 - whatever it is, the effect is unknown
            return Unknown(self._redact(error))
        return Created()

    def get(self, name: str, *, limit: int) -> bytes | None:
        """See `Store`."""
        _CLIENT.enter()
        try:
            found = obstore.get(self._reads, name)
            if found.meta["size"] > limit:
                msg = f"{self.uri}/{name} has {found.meta['size']} bytes, more than {limit}: run `phalanx check`"
                raise CorruptionError(msg)
            return found.bytes().to_bytes()
        except FileNotFoundError as error:
            self._require_bucket("read", name, error)
            return None
        except (BaseError, OSError, ValueError) as error:
            raise self._refusal("read", name, error) from None

    def get_many(self, names: Sequence[str], *, limit: int) -> Iterator[bytes | None]:
        """See `Store`."""
        _CLIENT.enter()
        if len(names) <= 1:
            return iter([self.get(name, limit=limit) for name in names])
        return self._pool.map(lambda name: self.get(name, limit=limit), names)

    def digest(self, name: str) -> Sum | None:
        """See `Store`."""
        _CLIENT.enter()
        digest, size = hashlib.sha256(), 0
        try:
            for chunk in obstore.get(self._reads, name).stream(min_chunk_size=_CHUNK):
                digest.update(chunk)
                size += len(chunk)
        except FileNotFoundError as error:
            self._require_bucket("read", name, error)
            return None
        except (BaseError, OSError, ValueError) as error:
            raise self._refusal("read", name, error) from None
        return Sum(size, digest.digest())

    def list(self, prefix: str, after: str = "", before: str = "") -> list[Listed]:
        """See `Store`."""
        _CLIENT.enter()
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

    def last(self, folder: str) -> str | None:
        """See `Store`."""
        listed = self.list(folder)
        return listed[-1].name if listed else None

    def delete(self, names: Iterable[str]) -> None:
        """See `Store`."""
        _CLIENT.enter()
        gone = list(names)
        try:
            if gone:
                obstore.delete(self._reads, gone)
        except FileNotFoundError as error:
            self._require_bucket("delete", gone[0], error)
            if len(gone) > 1:  # some protocols stop at the first that is absent
                list(self._pool.map(lambda name: self.delete([name]), gone))
        except (BaseError, OSError, ValueError) as error:
            raise self._refusal("delete", gone[0], error) from None

    def remove_folder(self, folder: str) -> None:
        """Folders do not exist here."""

    def sync(self, names: Iterable[str]) -> None:
        """An answered put is durable."""

    def persist(self, names: Iterable[str]) -> None:
        """An object that was written is durable."""

    def files(self) -> Files:
        """See `Store`."""
        return Files(self.uri, self._options, self)

    def place(self) -> str | None:
        """The address, and where it leads: the same bucket of another server is another place."""
        given = {key.lower(): value for key, value in [*environment().items(), *self._options.items()]}
        leads = sorted(f"{key}={value}" for key, value in given.items() if _LEADS.search(key))
        return "\n".join([self.uri, *leads])

    def relax(self) -> None:
        """Nothing to relax."""

    def now(self) -> float:
        """The time stamp that a listing shows for an object made now."""
        _CLIENT.enter()
        name = f"{TEMPORARY}/{SYSTEM.token(16).hex()}"
        try:
            obstore.put(self._reads, name, b"", use_multipart=False)
            stamps = [found.modified for found in self.list(TEMPORARY, after=name[:-1]) if found.name == name]
            obstore.delete(self._reads, [name])
        except (BaseError, OSError, ValueError) as error:
            raise self._refusal("write to", name, error) from None
        if not stamps:
            msg = f"{self.uri} does not list an object that was just created: try again"
            raise UnavailableError(msg)
        return stamps[0]

    def _connect(self, uri: str, options: Mapping[str, str], timeout: float, *, retries: int) -> ObjectStore:
        config: Any = {}
        client: Any = {}
        for key, value in options.items():
            of_client = _CLIENT_OPTION.fullmatch(key.lower())
            if of_client is None:
                config[key] = value
            else:
                client[of_client[1]] = value
        limit = timedelta(seconds=timeout)
        client |= {"timeout": limit, "connect_timeout": limit}
        backoff = {"base": 2, "init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=1)}
        retry: Any = {"max_retries": retries, "retry_timeout": limit, "backoff": backoff}
        try:
            store: ObjectStore = from_url(uri, config=config, client_options=client, retry_config=retry)
        except (BaseError, OSError, ValueError, TypeError) as error:
            msg = f"cannot use {self.uri} with these storage options: {self._redact(error)}"
            raise InvalidInputError(msg) from None
        return store

    def _require_bucket(self, verb: str, name: str, error: FileNotFoundError) -> None:
        """An object is absent only if its bucket is there."""
        if _NO_BUCKET.search(str(error)):
            raise self._refusal(verb, name, error) from None

    def _refusal(self, verb: str, name: str, error: Exception) -> UnavailableError:
        return UnavailableError(
            f"cannot {verb} {self.uri}/{name}: {self._redact(error)}; check the bucket, the credentials and the network"
        )

    def _redact(self, error: Exception) -> str:
        """One line, without anything secret; see the module's head."""
        text, _, details = str(error).partition("\n\nDebug source")
        text, opening, body = text.partition("<")
        text += ": ".join(_ANSWER.findall(opening + body))
        reason = _REASON.search(details) if text.endswith("error sending request") else None
        if reason is not None:
            text += f" ({reason[1] or 'timed out'})"
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = re.sub(r"://[^/\s@]*@", "://***@", text)  # a name and a password in an endpoint
        return " ".join(re.sub(r"\?\S+", "?***", text).split())


def _require_plain(parts: SplitResult) -> None:
    """Refuse what obstore would ignore in silence: credentials and queries in the address."""
    if not parts.hostname:
        msg = f"{parts.scheme}:// needs a bucket: {parts.scheme}://bucket/prefix"
        raise InvalidInputError(msg)
    container = parts.username if parts.scheme in {"abfs", "abfss"} and parts.password is None else None
    if parts.query or parts.fragment or (parts.username or parts.password) != container:
        msg = f"{parts.scheme}://{parts.hostname}{parts.path} came with a key, a token or a query: use storage_options"
        raise InvalidInputError(msg)


class _Client:
    """Which process the client's threads live in: the first that used it, and none that is forked off later."""

    def __init__(self) -> None:
        self._home: int | None = None

    def enter(self) -> None:
        here = os.getpid()
        if self._home is None:
            self._home = here
        if self._home != here:
            msg = "this process was forked from one that used object storage already: start processes by spawn"
            raise StateError(msg)


_CLIENT = _Client()


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
