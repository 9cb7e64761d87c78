"""What Phalanx relies on in obstore, so that a new release that changes it turns a test red, not a lake."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError, PermissionDeniedError
from obstore.store import ObjectStore, from_url

from tests.servers import REFUSE, RESET_AFTER, FaultProxy, Server

QUICK: Any = {"timeout": timedelta(seconds=2), "allow_http": True}
ONCE: Any = {"max_retries": 0}


def connect(server: Server, prefix: str) -> ObjectStore:
    """A store of obstore itself, without retries."""
    config: Any = {key: value for key, value in server.options.items() if key != "allow_http"}
    store: ObjectStore = from_url(server.uri(prefix), config=config, client_options=QUICK, retry_config=ONCE)
    return store


@pytest.fixture
def raw(server: Server, tmp_path: Path) -> ObjectStore:
    """An empty prefix on a server."""
    return connect(server, tmp_path.name)


def create(store: ObjectStore, name: str, data: bytes = b"x") -> None:
    """Put if absent, as the product does it."""
    obstore.put(store, name, data, mode="create", use_multipart=False)


def test_a_create_that_loses_raises_already_exists(raw: ObjectStore) -> None:
    """And nothing else, so that it can be told from failures."""
    create(raw, "a", b"first")
    with pytest.raises(AlreadyExistsError):
        create(raw, "a", b"second")
    assert obstore.get(raw, "a").bytes().to_bytes() == b"first"


def test_an_absent_object_raises_the_builtin_error(raw: ObjectStore) -> None:
    """Not one of obstore's own."""
    with pytest.raises(FileNotFoundError) as absent:
        obstore.get(raw, "a")
    assert not isinstance(absent.value, BaseError)


def test_an_offset_is_strictly_greater_and_a_prefix_is_a_folder(raw: ObjectStore) -> None:
    """Names are relative to the store's own prefix, and sorted."""
    for name in ("log/1", "log/2", "log/sub/3", "log2/4"):
        create(raw, name)
    found = [meta["path"] for page in obstore.list(raw, "log", offset="log/1") for meta in page]
    assert found == ["log/2", "log/sub/3"]
    assert [meta["path"] for page in obstore.list(raw, "nothing") for meta in page] == []


def test_a_time_stamp_knows_its_zone(raw: ObjectStore) -> None:
    """So that it can be turned into seconds since 1970."""
    create(raw, "log/1")
    [[meta]] = obstore.list(raw, "log")
    assert meta["last_modified"].utcoffset() == timedelta(0)
    assert meta["size"] == 1


def test_the_size_is_known_before_the_bytes_are_read(raw: ObjectStore) -> None:
    """So that an object that is too large is not read."""
    create(raw, "a", b"12345")
    assert obstore.get(raw, "a").meta["size"] == 5


def test_without_retries_a_put_is_sent_once(proxy: FaultProxy, tmp_path: Path) -> None:
    """Neither a server's error nor a broken connection makes the client send it again."""
    store = connect(proxy.server, tmp_path.name)
    for number, fault in enumerate([REFUSE, RESET_AFTER]):
        proxy.fail(fault, method="PUT")
        with pytest.raises(GenericError):
            create(store, f"log/{number}")
    assert proxy.seen("PUT") == ["refuse", "reset-after"]


def test_a_lack_of_permission_has_an_error_of_its_own(proxy: FaultProxy, tmp_path: Path) -> None:
    """It means that nothing happened."""
    proxy.fail(REFUSE.answering(403), method="PUT")
    with pytest.raises(PermissionDeniedError):
        create(connect(proxy.server, tmp_path.name), "log/1")


@contextmanager
def listening() -> Iterator[tuple[int, list[str]]]:
    """A port that answers 412 to one request, and what that request was."""
    heard: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with listener.accept()[0] as client:
                heard.append(client.recv(65_536).decode("latin-1").lower())
                client.sendall(b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1], heard
        thread.join()


@pytest.mark.parametrize(
    ("uri", "endpoint", "config", "condition"),
    [
        ("s3://b/p", "endpoint", {"access_key_id": "a", "secret_access_key": "b"}, "if-none-match: *"),
        ("az://c/p", "endpoint", {"account_name": "a", "account_key": "a2V5"}, "if-none-match: *"),
        ("gs://b/p", "base_url", {"bearer_token": "a"}, "x-goog-if-generation-match: 0"),
    ],
)
def test_a_create_carries_its_condition(uri: str, endpoint: str, config: Any, condition: str) -> None:
    """In the one request that it is, and a failed condition means that the object exists."""
    with listening() as (port, heard):
        config = config | {endpoint: f"http://127.0.0.1:{port}"}
        store: ObjectStore = from_url(uri, config=config, client_options=QUICK, retry_config=ONCE)
        with pytest.raises(AlreadyExistsError):
            create(store, "log/1")
    [request] = heard
    assert request.startswith("put ")
    assert condition in request.splitlines()


def test_a_shared_access_signature_is_not_in_errors() -> None:
    """The client leaves out the address that holds it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config: Any = {
            "account_name": "a",
            "sas_token": "sv=1&sig=hidden",
            "endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}",
        }
        client: Any = QUICK | {"timeout": timedelta(seconds=0.2)}
        store: ObjectStore = from_url("az://c/p", config=config, client_options=client, retry_config=ONCE)
        with pytest.raises(GenericError) as failed:
            create(store, "log/1")
    assert "hidden" not in str(failed.value)


def test_options_of_the_http_client_do_not_belong_among_the_others() -> None:
    """They make obstore panic with an error that is no `Exception`, which is why they are sorted out."""
    config: Any = {"skip_signature": "true", "allow_http": "true"}
    with pytest.raises(BaseException, match="Expected config prefix") as panic:
        from_url("s3://bucket", config=config)
    assert not isinstance(panic.value, Exception)
