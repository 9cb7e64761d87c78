"""Real storage servers on loopback, for tests, torture runs and benchmarks.

    with start_s3() as server:
        store = open_store(server.uri("some/prefix"), server.options)

    with start_azure() as server, proxied(server) as proxy:
        proxy.fail(LOSE_ANSWER, method="PUT")
        store = open_store(proxy.server.uri("some/prefix"), proxy.server.options)

A server that cannot be started is an error, never a reason to skip. A `Server` is a plain value: it can be sent to other
processes, as can the pair (uri, options).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers.azure import start_azure
from tests.servers.proxy import ABANDON, LOSE_ANSWER, REFUSE, RESET_AFTER, RESET_BEFORE, Fault, FaultProxy
from tests.servers.s3 import start_s3
from tests.servers.server import Server

__all__ = [
    "ABANDON",
    "LOSE_ANSWER",
    "REFUSE",
    "RESET_AFTER",
    "RESET_BEFORE",
    "Fault",
    "FaultProxy",
    "Server",
    "proxied",
    "start_azure",
    "start_s3",
]


@contextmanager
def proxied(server: Server) -> Iterator[FaultProxy]:
    """A fault proxy in front of `server`; clients use `proxy.server` instead of it."""
    proxy = FaultProxy(server)
    try:
        yield proxy
    finally:
        proxy.close()
