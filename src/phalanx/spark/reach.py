"""How another process reaches a lake: tasks run elsewhere, and are told where, never handed anything that is open.

Storage options may hold keys. They travel inside what Spark pickles, are in no plan and in no text: showing a `Reach`
shows the address alone.
"""

import functools
from collections.abc import Sequence

import msgspec

from phalanx.clock import SYSTEM
from phalanx.errors import InvalidInputError
from phalanx.lake import Lake, open_lake
from phalanx.objects import Sum, layout, open_store
from phalanx.pins import Pins
from phalanx.tables.dataset import Datasets
from phalanx.tables.sums import PROPERTY

OPTION = "storage."
"""What an option of Spark begins with that is a storage option of the lake."""


class Reach(msgspec.Struct, frozen=True):
    """The address of a lake, how its storage is opened, and whether files are synced and have checksums."""

    uri: str
    options: tuple[tuple[str, str], ...] = ()
    durability: str = "disk"
    checksums: str | None = None
    """The lake's property, if it has one."""

    def __repr__(self) -> str:
        """Without the options."""
        return f"Reach({self.uri!r})"

    def datasets(self) -> Datasets:
        """The datasets of the lake, kept for as long as this process runs: workers are used again."""
        return _datasets(self)

    def sync(self, table: str, names: Sequence[str]) -> None:
        """Make files durable that this process wrote into a table's folder (rule H3); the driver notes what they hold."""
        self.datasets().files.store.persist([layout.table(table, name) for name in names])

    def secure(self, table: str, names: Sequence[str]) -> dict[str, Sum]:
        """The same; what is to be noted of them, which the driver need not read them for."""
        return self.datasets().secure(table, names)

    def open(self) -> Lake:
        """The lake itself, for who needs its log."""
        return open_lake(self.uri, storage_options=dict(self.options) or None)


def reach(lake: Lake) -> Reach:
    """How processes elsewhere reach a lake that is open here."""
    if lake.uri.startswith("memory://"):
        raise InvalidInputError(
            f"{lake.uri} is in this process's memory, and Spark's tasks are other processes: use a folder"
        )
    files = lake.core.store.files()
    options = tuple(sorted(files.options.items()))
    return Reach(lake.uri, options, lake.settings.durability, lake.core.log.view.state.properties.get(PROPERTY))


@functools.lru_cache(maxsize=8)
def _datasets(where: Reach) -> Datasets:
    store = open_store(where.uri, dict(where.options) or None)
    if where.durability == "os":
        store.relax()
    files = store.files()
    said = {} if where.checksums is None else {PROPERTY: where.checksums}
    pins = Pins(files.store, SYSTEM, lambda: 0)  # the driver has pinned what tasks read and write
    return Datasets(files, pins, lambda: said)
