"""The S3 protocol on loopback: moto, made safe for races by `moto_app.py`."""

import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.server import Server, running

_APP = Path(__file__).with_name("moto_app.py")
_CREDENTIALS = {
    "access_key_id": "AKPHALANXTESTS",
    "secret_access_key": "not-a-secret-of-anybody",
    "region": "us-east-1",
}


@contextmanager
def start_s3(bucket: str = "lakes") -> Iterator[Server]:
    """A server with an empty bucket."""
    with tempfile.TemporaryDirectory() as folder, running([sys.executable, _APP], Path(folder)) as port:
        server = Server("s3", bucket, port, credentials=_CREDENTIALS)
        request = urllib.request.Request(f"{server.endpoint}/{bucket}", method="PUT")
        urllib.request.urlopen(request, timeout=30).close()
        yield server
