"""Columns as text: `id: int64 not null, tags: list<string>, embedding: fixed_size_list<float>[128]`.

Types are written as Arrow writes them, so that what `phalanx show` prints can be given to `phalanx create`; the names of
list elements and the `tz=` of a zone may be left out, and `list<float>[128]` is short for a list of fixed size. A column
may be null unless it says `not null`. What cannot be read is refused with the place and what was expected there.
"""

import difflib
import re
import zoneinfo
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa

from phalanx.errors import InvalidInputError

Field: TypeAlias = "pa.Field[Any]"
_arrow: Any = pa
"""The stubs of these functions know literals only."""

_NAME = re.compile(r'"((?:[^"\\]|\\.)+)"|([^\s"<>\[\]():,=]+)')
_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"-?\d{1,9}")
_NOT_NULL = re.compile(r"not\s+null\b", re.IGNORECASE)
_ZONE = re.compile(r"[^\s\],]+")
_OFFSET = re.compile(r"[+-](?:[01]\d|2[0-3]):[0-5]\d")
_DEEPEST = 32
_UNITS = ("s", "ms", "us", "ns")
_PLAIN = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float", "double"),
    *("string", "binary", "large_string", "large_binary", "date32", "date64", "time32[ms]", "time64[us]"),
    *("timestamp[us]", "duration[us]"),
)
_HABITS = {
    **dict.fromkeys(("int", "integer", "long", "number"), "int32 or int64"),
    **dict.fromkeys(("text", "varchar", "char", "json"), "string"),
    **dict.fromkeys(("vector", "embedding", "array"), "fixed_size_list<float>[n] or list<float>"),
    **dict.fromkeys(("blob", "bytes", "bytea"), "binary"),
    **dict.fromkeys(("numeric", "dec"), "decimal(p, s)"),
    "bigint": "int64",
    "smallint": "int16",
    "real": "float",
    "date": "date32",
    "time": "time64[us]",
    "datetime": "timestamp[us, UTC]",
}
"""Words of other systems, and what they are here."""
_NESTED = ("list<…>", "large_list<…>", "fixed_size_list<…>[n]", "struct<a: …>", "map<…, …>", "decimal(p, s)")


def parse_columns(text: str) -> pa.Schema:
    """The schema that a text describes."""
    reader = _Reader(text)
    fields = reader.columns()
    reader.end()
    return pa.schema(fields)


def parse_type(text: str) -> Field:
    """The type that a text describes, as a column without a name: it may say `not null`."""
    reader = _Reader(text, "type", "int64")
    field = reader.unnamed()
    reader.end()
    return field


class _Reader:
    """A text and how far it was read; `what` it is, and an `example` of it, are for whoever wrote something else."""

    def __init__(self, text: str, what: str = "schema", example: str = "id: int64 not null, name: string") -> None:
        self._text = text
        self._what = what
        self._example = example
        self._at = 0
        self._depth = 0
        self._kinds: dict[str, Callable[[], pa.DataType]] = {
            "list": lambda: pa.list_(self._element(), self._size() if self._rest().startswith("[") else -1),
            "large_list": lambda: pa.large_list(self._element()),
            "fixed_size_list": lambda: pa.list_(self._element(), self._size()),
            "struct": self._struct,
            "map": self._map,
            "decimal": lambda: _decimal(*self._precision()),
            "decimal128": lambda: pa.decimal128(*self._precision()),
            "decimal256": lambda: pa.decimal256(*self._precision()),
            "fixed_size_binary": lambda: pa.binary(self._size()),
            "timestamp": self._timestamp,
        }

    def columns(self) -> list[Field]:
        """Columns up to where they end."""
        found = [self._column()]
        while self._take(","):
            found.append(self._column())
        names = [field.name for field in found]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            self._refuse(f"name {twice!r} only once")
        return found

    def unnamed(self) -> Field:
        """A type, and whether it may be null."""
        return self._nullability("", self._type())

    def end(self) -> None:
        """Nothing may follow."""
        if self._rest():
            self._refuse('expected "," or the end' if self._what == "schema" else "expected the end")

    def _column(self) -> Field:
        found = self._match(_NAME)
        if found is None:
            self._refuse("expected the name of a column")
        self._need(":")
        return self._nullability(found[2] or re.sub(r"\\(.)", r"\1", found[1]), self._type())

    def _nullability(self, name: str, kind: pa.DataType) -> Field:
        return pa.field(name, kind, nullable=self._match(_NOT_NULL) is None)

    def _type(self) -> pa.DataType:
        start = self._at
        found = self._match(_WORD)
        if found is None:
            self._refuse("expected a type, for example int64")
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse(f"nest types {_DEEPEST} deep at the most")
        word = found[0].lower()
        try:
            return self._kinds[word]() if word in self._kinds else self._plain(word)
        except (ValueError, pa.ArrowException) as error:
            self._at = start
            self._refuse(" ".join(str(error).split()))
        finally:
            self._depth -= 1

    def _plain(self, word: str) -> pa.DataType:
        written = word
        if self._take("["):
            unit = self._match(_WORD)
            written = f"{word}[{unit[0].lower() if unit else ''}]"
            self._need("]")
        try:
            found: pa.DataType = _arrow.type_for_alias(written)
        except ValueError:
            near = _HABITS.get(word) or " or ".join(difflib.get_close_matches(written, _PLAIN, 3, 0.6))
            raise ValueError(
                f"{written!r} is not a type; use {near or 'one of ' + ', '.join((*_PLAIN, *_NESTED))}"
            ) from None
        return found

    def _element(self) -> Field:
        self._need("<")
        before = self._at
        named = self._match(_NAME)
        if named is None or not self._take(":"):
            named, self._at = None, before
        field = self._nullability((named[2] or named[1]) if named else "item", self._type())
        self._need(">")
        return field

    def _struct(self) -> pa.DataType:
        self._need("<")
        fields = self.columns()
        self._need(">")
        return pa.struct(fields)

    def _map(self) -> pa.DataType:
        self._need("<")
        key = self._type()
        self._need(",")
        value = self._nullability("value", self._type())
        self._need(">")
        made: pa.DataType = _arrow.map_(key, value)
        return made

    def _timestamp(self) -> pa.DataType:
        self._need("[")
        unit = self._match(_WORD)
        if unit is None or unit[0].lower() not in _UNITS:
            self._refuse(f"expected the unit of a timestamp: {', '.join(_UNITS)}")
        zone = self._zone() if self._take(",") else None
        self._need("]")
        made: pa.DataType = _arrow.timestamp(unit[0].lower(), zone)
        return made

    def _zone(self) -> str:
        self._take("tz=")
        found = self._match(_ZONE)
        zone = found[0] if found else ""
        if zone != "UTC" and not _OFFSET.fullmatch(zone):
            try:
                zoneinfo.ZoneInfo(zone)
            except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
                raise ValueError(
                    f"{zone!r} is not a time zone: use UTC, a name like Europe/Berlin, or +02:00"
                ) from None
        return zone

    def _precision(self) -> tuple[int, int]:
        self._need("(")
        precision = self._number()
        self._need(",")
        scale = self._number()
        self._need(")")
        return precision, scale

    def _size(self) -> int:
        self._need("[")
        size = self._number()
        self._need("]")
        if size < 1:
            raise ValueError(f"a size is 1 or more: {size} is not")
        return size

    def _number(self) -> int:
        found = self._match(_NUMBER)
        if found is None:
            self._refuse("expected a number")
        return int(found[0])

    def _take(self, mark: str) -> bool:
        there = self._rest().startswith(mark)
        self._at += len(mark) if there else 0
        return there

    def _need(self, mark: str) -> None:
        if not self._take(mark):
            self._refuse(f'expected "{mark}"')

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self._rest()
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found

    def _rest(self) -> str:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._text[self._at :]

    def _refuse(self, what: str) -> NoReturn:
        rest = self._rest()
        place = f"at {rest[:24]!r}" if rest else "at its end"
        example = f'; write it like "{self._example}"' if what.startswith("expected") else ""
        raise InvalidInputError(f"the {self._what} cannot be read {place}: {what}{example}")


def _decimal(precision: int, scale: int) -> pa.DataType:
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
