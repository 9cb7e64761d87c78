"""The Azure blob protocol on loopback: azurite, installed by `install.py`.

Account and key are the well-known ones that every azurite has.
"""

import base64
import hashlib
import hmac
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from tests.servers.install import install_azurite
from tests.servers.server import Server, running

_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_FLAGS = ["--blobPort", "0", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent"]
_RUN = Path(__file__).parent / "azurite" / "run.js"
_VERSION = "2021-12-02"


@contextmanager
def start_azure(container: str = "lakes") -> Iterator[Server]:
    """A server with an empty container."""
    node, main = install_azurite()
    with tempfile.TemporaryDirectory() as folder, running([node, _RUN, main, *_FLAGS], Path(folder)) as port:
        credentials = {"account_name": _ACCOUNT, "account_key": _KEY}
        server = Server("az", container, port, path=f"/{_ACCOUNT}", credentials=credentials)
        _create(server)
        yield server


def _create(server: Server) -> None:
    """Create the container, with a request signed by the account's key."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION}
    canonical = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    resource = f"/{_ACCOUNT}{server.path}/{server.bucket}\nrestype:container"
    signed = "PUT" + "\n" * 12 + canonical + resource  # the standard headers between are all empty
    digest = hmac.digest(base64.b64decode(_KEY), signed.encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {_ACCOUNT}:{base64.b64encode(digest).decode()}"
    headers["Content-Length"] = "0"
    address = f"{server.endpoint}/{server.bucket}?restype=container"
    request = urllib.request.Request(address, method="PUT", headers=headers)
    urllib.request.urlopen(request, timeout=30).close()
