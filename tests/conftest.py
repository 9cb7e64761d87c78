"""The servers that tests share: each is started once a session, when the first test asks for it."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from phalanx.clock import environment
from tests.servers import Server, start_azure, start_s3

settings.register_profile("phalanx", deadline=None)  # how long an example takes says more of the machine than of us
settings.load_profile("phalanx")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, and every child would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _own_environment() -> Iterator[None]:
    """No account of whoever runs the tests is used, and no proxy stands before loopback."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in environment() if name.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
            patch.delenv(name)
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, f"{environment().get(name, '')},127.0.0.1".lstrip(","))
        yield


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Server]:
    """A server that speaks the S3 protocol."""
    with start_s3() as server:
        yield server


@pytest.fixture(scope="session")
def azure_server() -> Iterator[Server]:
    """A server that speaks the Azure blob protocol."""
    with start_azure() as server:
        yield server
