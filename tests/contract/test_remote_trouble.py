"""An object store that cannot be used: bounded waiting, plain words, no secrets."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from obstore.exceptions import GenericError

from phalanx.errors import PhalanxError, UnavailableError, UnsupportedError
from phalanx.objects import Put, Store, Unknown, open_store
from phalanx.objects.remote import RemoteStore
from tests.servers import REFUSE, FaultProxy, Server

TIMEOUT = 0.3
SLACK = 3.0
"""How much longer a call may take on a busy machine; the client's own defaults are beyond it by far."""
SECRETS = {"s3": "secret_access_key", "az": "account_key"}


def secret(server: Server) -> str:
    """What must not appear in any text."""
    return server.options[SECRETS[server.scheme]]


def put(store: Store) -> Put:
    """One attempt to create an object."""
    with store.prepare([b"x"]) as blob:
        return blob.put("log/1")


CALLS: dict[str, Callable[[Store], object]] = {
    "put": put,
    "get": lambda store: store.get("log/1", limit=10),
    "get many": lambda store: list(store.get_many(["log/1", "log/2"], limit=10)),
    "list": lambda store: store.list("log"),
    "delete": lambda store: store.delete(["log/1", "log/2"]),
    "now": lambda store: store.now(),
}


def outcome(store: Store, call: str) -> tuple[object, str, float]:
    """What came of a call, the text of it, and how long it took."""
    start = time.monotonic()
    try:
        answer = CALLS[call](store)
    except PhalanxError as error:
        return error, str(error), time.monotonic() - start
    return answer, str(answer), time.monotonic() - start


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port where connections are taken and nothing is ever answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.parametrize("call", CALLS)
def test_a_missing_bucket_is_unavailable(server: Server, call: str) -> None:
    """Above all, an object in it is not absent: that would be an answer about a lake that is somewhere else."""
    uri = server.uri("prefix").replace(server.bucket, "no-such-bucket")
    answer, text, _ = outcome(open_store(uri, server.options), call)
    assert type(answer) is UnavailableError
    assert "does not exist" in text
    assert "check the bucket" in text
    assert secret(server) not in text


@pytest.mark.parametrize("call", CALLS)
def test_wrong_credentials_are_unavailable(proxy: FaultProxy, call: str) -> None:
    """The server's refusal is certain, so a put is not unknown."""
    server = proxy.server
    wrong = server.options | {SECRETS[server.scheme]: "aGlkZGVuaGlkZGVu"}
    if server.scheme == "s3":  # moto believes everybody
        proxy.fail(REFUSE.answering(403), times=10)
    answer, text, _ = outcome(open_store(server.uri("prefix"), wrong), call)
    assert type(answer) is UnavailableError
    assert "403 Forbidden" in text
    assert "check the bucket, the credentials" in text
    assert "aGlkZGVuaGlkZGVu" not in text


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_is_not_there_is_told_at_once(server: Server, closed_port: int, call: str) -> None:
    """A refused connection says so."""
    away = server.at(closed_port)
    answer, text, seconds = outcome(open_store(away.uri("prefix"), away.options, timeout=TIMEOUT), call)
    assert type(answer) is (Unknown if call == "put" else UnavailableError)
    assert "Connection refused" in text
    assert secret(server) not in text
    assert seconds < TIMEOUT + SLACK


@pytest.mark.parametrize("call", CALLS)
def test_a_silent_server_is_given_up_after_the_timeout(server: Server, silent_port: int, call: str) -> None:
    """Nothing waits much longer than it was told to."""
    away = server.at(silent_port)
    answer, text, seconds = outcome(open_store(away.uri("prefix"), away.options, timeout=TIMEOUT), call)
    assert type(answer) is (Unknown if call == "put" else UnavailableError)
    assert "timed out" in text
    assert secret(server) not in text
    assert TIMEOUT * 0.9 < seconds < TIMEOUT + SLACK


def test_credentials_that_cannot_be_had_are_given_up_after_the_timeout(silent_port: int) -> None:
    """Without a key the client asks the machine's own service for one, which may not answer."""
    options = {"metadata_endpoint": f"http://127.0.0.1:{silent_port}", "region": "us-east-1"}
    answer, _, seconds = outcome(open_store("s3://bucket/prefix", options, timeout=TIMEOUT), "get")
    assert type(answer) is UnavailableError
    assert seconds < TIMEOUT + SLACK


def test_a_store_without_conditional_puts_is_unsupported(s3_server: Server) -> None:
    """A lake cannot stand on it, and no retry will help."""
    store = open_store(s3_server.uri("prefix"), s3_server.options | {"conditional_put": "disabled"})
    with pytest.raises(UnsupportedError, match="only if it is absent"):
        put(store)


def test_a_forked_process_is_told_to_spawn(s3_server: Server) -> None:
    """The client's threads are gone there, and every call would hang for ever."""
    program = """
import os, sys
from phalanx.errors import StateError
from phalanx.objects import open_store
uri, options = eval(sys.argv[1])
used = open_store(uri, options)
assert used.get("log/1", limit=10) is None
child = os.fork()
if child == 0:
    refused = 0
    for store in (used, open_store(uri, options)):
        for call in (
            lambda: store.get("log/1", limit=10),
            lambda: list(store.get_many(["log/1", "log/2"], limit=10)),
            lambda: store.list("log"),
            lambda: store.delete(["log/1"]),
            lambda: store.now(),
            lambda: store.prepare([b"x"]).put("log/1"),
        ):
            try:
                call()
            except StateError as error:
                refused += "spawn" in str(error)
    os._exit(refused)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    argument = repr((s3_server.uri("prefix"), s3_server.options))
    done = subprocess.run([sys.executable, "-c", program, argument], check=False, timeout=60)
    assert done.returncode == 12


DENIED = """\
The operation lacked the necessary privileges to complete for path log/1: Error performing PUT \
http://host/bucket/log/1?X-Amz-Signature=SIGNATURE&x=1 in 2ms - Server returned non-2xx status code: 403 Forbidden: \
<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SignatureDoesNotMatch</Code><Message>The request signature we calculated does not match.
Check your key.</Message><AWSAccessKeyId>AK</AWSAccessKeyId><StringToSign>AWS4 STRING</StringToSign>\
<SignatureProvided>SIGNATURE</SignatureProvided>\
<CanonicalRequest>PUT x-amz-security-token:TOKEN</CanonicalRequest></Error>

Debug source:
PermissionDenied { body: "<Error><Token-0>TOKEN</Token-0> SIGNATURE OPTION" }"""


def test_an_error_is_told_without_what_the_server_repeats_of_the_request() -> None:
    """A server's answer may hold the signature and the session token, wherever they came from."""
    store = RemoteStore("s3://bucket", {"skip_signature": "true", "session_token": "OPTION"}, timeout=1)
    text = store._redact(GenericError(DENIED))
    assert text == (
        "The operation lacked the necessary privileges to complete for path log/1: Error performing PUT "
        "http://host/bucket/log/1?*** in 2ms - Server returned non-2xx status code: 403 Forbidden: "
        "SignatureDoesNotMatch: The request signature we calculated does not match."
    )
    assert store._redact(GenericError("with OPTION in it")) == "with *** in it"
    assert store._redact(GenericError("502: <html><body>TOKEN</body></html>")) == "502:"
