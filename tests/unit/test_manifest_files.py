"""Manifests as files: read and numbered anew without loss, and anything else is refused as what it is."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import phalanx
from phalanx.errors import CorruptionError
from phalanx.tables import proto
from phalanx.tables.manifest import Manifest, detached_number, managed_name
from tests.unit.stock import folder, opened, rows, stage

SEED = 20_264


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bytes]:
    """A manifest as a stock client staged it, with an index and settings."""
    with phalanx.open(tmp_path_factory.mktemp("lake"), create=True, durability="os") as lake:
        lake.create_table("t", rows(*range(50)))
        opened(lake, "t").create_scalar_index("v", "BTREE")
        opened(lake, "t").update_config({"a": "b"})
        request = stage(lake, "t", lambda table: table.insert(rows(50)))
        assert folder(lake, "t").is_dir()
        yield Path("/", request["manifest_path"]).read_bytes()


def test_a_manifest_says_the_same_under_another_number(file: bytes) -> None:
    """Whatever the number, and as often as one likes; what stands before the message stays where it is."""
    made = Manifest.read(file, "it")
    assert made.fits
    assert not made.reserves
    assert made.next_row_id == 51
    for number in (1, 127, 128, 1 << 40, detached_number(b"12345678")):
        again = Manifest.read(made.numbered(number), "it")
        assert again.version == number
        assert again.says_the_same_as(made)
        assert again.before == made.before
        assert again.indexes() == made.indexes() != b""
        assert again.numbered(number) == made.numbered(number)
    assert managed_name(7) == "_managed/7.manifest"


@pytest.mark.parametrize("cut", ["the front", "the end", "the middle"])
def test_a_part_of_a_manifest_is_none(file: bytes, cut: str) -> None:
    for size in (1, 2, 3, 7, 16, 17, 40, len(file) - 1, len(file)):
        middle = len(file) // 2
        given = {
            "the front": file[size:],
            "the end": file[:-size],
            "the middle": file[: max(middle - size // 2, 0)] + file[middle + (size + 1) // 2 :],
        }[cut]
        with pytest.raises(CorruptionError, match="it is no manifest"):
            Manifest.read(given, "it")


def test_damaged_bytes_are_never_anything_but_a_damaged_manifest(file: bytes) -> None:
    """Some cannot be seen, for there is no checksum in the file; none ends in any other error."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    refused = 0
    for _ in range(600):
        data = bytearray(file)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            made = Manifest.read(bytes(data), "it")
        except CorruptionError:
            refused += 1
        else:
            assert Manifest.read(made.numbered(5), "it").version == 5
            assert isinstance(made.says_the_same_as(made), bool)
            assert made.next_row_id >= 0
            assert made.reserves in (True, False)
    assert 60 < refused < 540


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 1 << 32, (1 << 64) - 1])
def test_numbers_are_read_as_they_were_written(value: int) -> None:
    assert proto.read_varint(b"x" + proto.varint(value), 1) == (value, 1 + len(proto.varint(value)))
    message = proto.number(3, value) + proto.content(4, b"text") + proto.number(3, 9)
    assert proto.number_of(message, 3) == 9
    assert proto.number_of(message, 5, 7) == 7
    assert proto.bytes_of(message, 4) == b"text"
    assert proto.without(message, 3) == proto.content(4, b"text")


@pytest.mark.parametrize("message", [b"\x0a\x05ab", b"\x09abc", b"\x0d\x00", b"\x0b", b"\x80", b"\x08"])
def test_a_message_that_is_cut_off_is_none(message: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        list(proto.parts(message))
