"""Where each version of a table landed: an immutable list that grows at its end, a few bytes for each version.

A table's version n is its n-th change; the log knows positions. The list is part of the fold, so that any version is
found without reading the log (I11): closed pages are bytes that are shared by every state since, and only the open page
is copied when a version is added.
"""

from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from phalanx.errors import CorruptionError
from phalanx.tables.proto import read_varint, varint

_PAGE = 128
_SMALL = [bytes((value,)) for value in range(0x80)]


class Landed(msgspec.Struct, frozen=True, gc=False):
    """A version, and the position and place of the commit that made it."""

    version: int
    position: int
    place: int


class _Page(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Up to `_PAGE` versions from `version` on; each is its distance from the position before, and its place."""

    version: int
    position: int
    data: bytes


class Versions(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The versions of one table up to `last`, which landed at `position`. Whoever adds one gets another list.

    Numbers need not begin with 1, and may jump: a table that was dropped and restored goes on behind its last one.
    """

    last: int = 0
    position: int = 0
    first: int = 1
    base: int = 0
    data: bytes = b""
    """The open page: its first version, the position it counts from, and what is in it."""
    closed: tuple[_Page, ...] = ()

    def add(self, version: int, position: int, place: int) -> "Versions":
        """With one more. Every process does this for every commit: it is written to be quick."""
        first, data = self.first, self.data
        if data and version == self.last + 1 and version - first < _PAGE:
            step = position - self.position
            small = step < 0x80 and place < 0x80
            more = _SMALL[step] + _SMALL[place] if small else varint(step) + varint(place)
            return Versions(version, position, first, self.base, data + more, self.closed)
        closed = (*self.closed, _Page(first, self.base, data)) if data else self.closed
        return Versions(version, position, version, position, _SMALL[0] + varint(place), closed)

    def of(self, version: int) -> Landed | None:
        """Where a version landed; None if there is none."""
        pages = self._pages()
        at = bisect_right(pages, version, key=lambda page: page.version) - 1
        if at < 0 or version > self.last:
            return None
        return next((one for one in _read(pages[at]) if one.version == version), None)

    def at(self, position: int) -> Landed | None:
        """The newest version at a position of the lake; None before the first."""
        if position >= self.position:
            return self.of(self.last)
        pages = self._pages()
        at = bisect_right(pages, position, key=lambda page: page.position) - 1
        found = None
        for one in _read(pages[at]) if at >= 0 else ():
            if one.position <= position:
                found = one
        return found

    def newest_first(self, below: int | None = None) -> Iterator[Landed]:
        """Versions, newest first, from the one before `below` on; a page is read when it is reached."""
        for page in reversed(self._pages()):
            if below is None or page.version < below:
                for one in reversed(list(_read(page))):
                    if below is None or one.version < below:
                        yield one

    def oldest_first(self, above: int = 0) -> Iterator[Landed]:
        """Versions, oldest first, from the one after `above` on."""
        pages = self._pages()
        at = max(0, bisect_right(pages, above, key=lambda page: page.version) - 1)
        for page in pages[at:]:
            yield from (one for one in _read(page) if one.version > above)

    def _pages(self) -> tuple[_Page, ...]:
        return (*self.closed, _Page(self.first, self.base, self.data)) if self.data else self.closed


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Versions)


def pack_versions(versions: Versions) -> bytes:
    """A list as an action carries it."""
    return _encoder.encode(versions)


def unpack_versions(data: bytes) -> Versions:
    """The inverse of `pack_versions`; nothing is an empty list."""
    try:
        return _decoder.decode(data) if data else Versions()
    except msgspec.DecodeError as error:
        raise CorruptionError(f"a list of versions cannot be read: {error}; run `phalanx check`") from error


def _read(page: _Page) -> Iterator[Landed]:
    version, position, at = page.version, page.position, 0
    while at < len(page.data):
        step, at = read_varint(page.data, at)
        place, at = read_varint(page.data, at)
        position += step
        yield Landed(version, position, place)
        version += 1
