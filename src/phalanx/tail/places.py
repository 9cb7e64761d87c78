"""Where the row of each key is: an immutable map that takes many changes as cheaply as few.

A persistent map takes several microseconds for each key, with the interpreter's lock held: twenty thousand keys would
stop every other thread of a writer for a tenth of a second. So many keys at once go into a plain dictionary, which is
copied and never changed afterwards; few go on top of it.
"""

from __future__ import annotations  # HashTrieMap cannot be subscripted at run time

from collections.abc import Collection, Hashable, Iterable

from rpds import HashTrieMap

_MANY = 256
_GONE = -1


class Places:
    """A number for each key. Whoever changes it gets another one."""

    __slots__ = ("_below", "_top")

    def __init__(self, below: dict[Hashable, int] | None = None, top: HashTrieMap[Hashable, int] | None = None) -> None:
        self._below: dict[Hashable, int] = {} if below is None else below
        self._top: HashTrieMap[Hashable, int] = HashTrieMap() if top is None else top

    def get(self, key: Hashable) -> int | None:
        """The number of a key."""
        found = self._top.get(key)
        if found is None:
            return self._below.get(key)
        return None if found == _GONE else found

    def found(self, keys: Iterable[Hashable]) -> list[int]:
        """The numbers of those keys that have one, in their order."""
        if not len(self._top):
            below = self._below
            return [below[key] for key in keys if key in below]
        return [number for number in map(self.get, keys) if number is not None]

    def put(self, keys: Collection[Hashable], first: int) -> Places:
        """With these keys, numbered from `first` on."""
        numbered = zip(keys, range(first, first + len(keys)), strict=True)
        if self._many(len(keys)):
            below = self._flat()
            below.update(numbered)
            return Places(below)
        return Places(self._below, self._top.update(HashTrieMap(numbered)))

    def drop(self, keys: Collection[Hashable]) -> Places:
        """Without these keys."""
        if self._many(len(keys)):
            below = self._flat()
            for key in keys:
                below.pop(key, None)
            return Places(below)
        return Places(self._below, self._top.update(HashTrieMap((key, _GONE) for key in keys)))

    def _many(self, count: int) -> bool:
        """Whether a new dictionary is cheaper: for many changes at once, or when many have come one by one."""
        return count > _MANY or len(self._top) + count > _MANY + len(self._below) // 4

    def _flat(self) -> dict[Hashable, int]:
        below = dict(self._below)
        for key, number in self._top.items():
            if number == _GONE:
                below.pop(key, None)
            else:
                below[key] = number
        return below
