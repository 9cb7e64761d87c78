"""The rows of a tail that are held in memory: an immutable value, changed by making another one.

Rows are only ever added at the end; a row that was replaced or deleted is marked dead and dropped when the dead are the
majority. Each row has an identity (docs/protocol.md, D2): its row id if it came from the head, -(serial + 1) if it came
with an item. On a keyed table the living are found by their key, and there is one of each (I13).
"""

from collections.abc import Hashable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from phalanx.runs import NO_IDS, Ids
from phalanx.tail.columns import Conversion
from phalanx.tail.keys import key_values
from phalanx.tail.places import Places
from phalanx.tail.vectors import Vectors

Mask = npt.NDArray[np.bool_]

_MOST_CHUNKS = 16
_SLACK = 256


class Memory(msgspec.Struct, frozen=True):
    """Rows with their identities; `alive` says which of them count, `places` where a key's living row is."""

    rows: pa.Table
    identities: Ids
    alive: Mask
    places: Places | None
    compared: dict[str, Vectors] = msgspec.field(default_factory=dict)
    """Columns of vectors as they are compared: made for the first search, and shared by those that follow."""

    def vectors(self, column: str) -> Vectors:
        """A column of vectors, of the dead too."""
        found = self.compared.get(column)
        if found is None:
            found = self.compared[column] = Vectors(self.rows.column(column))
        return found

    def living(self) -> pa.Table:
        """The rows that count."""
        return self.rows if self.alive.all() else self.rows.filter(pa.array(self.alive))

    def living_identities(self) -> Ids:
        """Their identities, in the same order."""
        return self.identities[self.alive]

    def count(self) -> int:
        """How many rows count."""
        return int(np.count_nonzero(self.alive))

    def add(self, rows: pa.Table, identities: Ids, key: Sequence[str]) -> "Memory":
        """With more rows, whose keys, if there are any, must be free."""
        if rows.num_rows == 0:
            return self
        at = self.rows.num_rows
        together = pa.concat_tables([self.rows, rows])
        if together.column(0).num_chunks > _MOST_CHUNKS:
            together = together.combine_chunks()
        places = self.places
        if places is not None:
            places = places.put(key_values(rows, key), at)
        return Memory(
            together,
            np.concatenate([self.identities, identities]),
            np.concatenate([self.alive, np.ones(rows.num_rows, dtype=np.bool_)]),
            places,
        )

    def kill(self, dead: Mask, key: Sequence[str]) -> "Memory":
        """Without the rows of the mask."""
        dead = dead & self.alive
        if not dead.any():
            return self
        places = self.places
        if places is not None:
            places = places.drop(key_values(self.rows.filter(pa.array(dead)), key))
        return _tidied(Memory(self.rows, self.identities, self.alive & ~dead, places), key)

    def converted(self, conversion: Conversion, key: Sequence[str]) -> "Memory":
        """With other columns; every row keeps its identity."""
        nothing = empty(conversion.after, key)
        if not self.count():
            return nothing
        return nothing.add(conversion.rows(self.living().combine_chunks()), self.living_identities(), key)

    def kill_keys(self, values: Sequence[Hashable], key: Sequence[str]) -> "Memory":
        """Without the rows of these keys."""
        dead = [] if self.places is None else self.places.found(values)
        if self.places is None or not dead:
            return self
        alive = self.alive.copy()
        alive[dead] = False
        return _tidied(Memory(self.rows, self.identities, alive, self.places.drop(values)), key)


def _tidied(held: Memory, key: Sequence[str]) -> Memory:
    """Without the dead, once they are the majority."""
    if held.rows.num_rows <= 2 * held.count() + _SLACK:
        return held
    return empty(held.rows.schema, key).add(held.living().combine_chunks(), held.living_identities(), key)


def empty(schema: pa.Schema, key: Sequence[str]) -> Memory:
    """No rows."""
    return Memory(schema.empty_table(), NO_IDS, np.empty(0, dtype=np.bool_), Places() if key else None)
