"""The servers that tests share: each is started once a session, when the first test asks for it."""

from collections.abc import Iterator

import pytest

from tests.servers import Server, start_azure, start_s3


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
