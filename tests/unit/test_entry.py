"""Entries: a strict, versioned, checksummed format whose bytes are pinned."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from phalanx.errors import CorruptionError, InvalidInputError, UnsupportedError
from phalanx.ids import AttemptId, LakeId
from phalanx.log import action as do
from phalanx.log import entry, frame
from phalanx.log import item as it
from phalanx.log.entry import Sealed, Transaction, seal

GOLDEN = Path(__file__).parent / "golden"
LAKE, ATTEMPT = LakeId(bytes(range(16))), AttemptId(bytes(range(16, 32)))
TABLE = "0123456789abcdef" * 2
PAYLOADS = (b"rows", b"more rows", b"row numbers")


def every_action() -> list[do.Action]:
    """One of each kind: a new kind of action fails the test below until it is added here and to the golden bytes."""
    return [
        do.Found(do.Settings()),
        do.CreateNamespace(("crm",), {"owner": "ann"}),
        do.AlterNamespace(("crm",), {"owner": None, "team": "blue"}),
        do.DropNamespace(("crm", "old")),
        do.CreateTable(("crm", "turns"), TABLE, {"a": "b"}),
        do.DropTable(("crm", "turns"), TABLE),
        do.DeregisterTable(("crm", "turns"), TABLE),
        do.ReviveTable(("crm", "turns"), TABLE, {"a": "b"}, 41, 7),
        do.ReviveTable(("crm", "turns"), TABLE, {}, 41, 7, b"versions", ((1, 1), (3, (1 << 63) - 1)), 40),
        do.RenameTable(("crm", "turns"), TABLE, ("turns",)),
        do.PutTag("release", 41, False),
        do.Untag("release"),
        do.SetProperty("prune.protect", "600"),
        do.Progress("feed", None, 7),
        do.Prune(41, 44, 1_700_000_000_000_000),
        do.Prune(41, 44, 9, (3, 7), ((b"p" * 16, 40),), ((TABLE, ((1, 1), (3, 5))),), by_itself=True),
        do.CreateTable(("turns",), TABLE, {}, b"schema", ("id", "part"), 1 << 63),
        *every_item(),
        it.Flush(TABLE, 2, 1 << 63, 40, 42, (1 << 63) + 1, 900, 950, 2),
        it.Flush(TABLE, 2, (1 << 63) + 1, 42, 43, (1 << 63) + 2, 950, 951),
        it.Rewrite(TABLE, 2, (1 << 63) + 2, (1 << 64) - 1, (0, 3, 4), 1),
        it.Cover(TABLE, 2, (1 << 64) - 1, 1 << 63, ("by_text", "by_id")),
        it.Claim(TABLE, 2, (0, 3, 4), "ann@host:1/0a1b", 1_700_000_000_000_000, (1 << 63) - 1),
        it.DeclareIndex(TABLE, "by_text", "text", "inverted", {"stem": True, "language": "English", "b": 0.5, "n": 1}),
        it.DropIndex(TABLE, "by_text"),
        it.DeleteVersions(TABLE, ((1, 1), (3, (1 << 63) - 1))),
    ]


def every_item() -> list[it.Item]:
    """Every kind of item, with its rows inside the entry and staged, with and without what is optional."""
    inline, plain = it.Inline(0, 3), it.Staged(1 << 63, 4, 2, 50, 17, 2, 900, 950, False)
    whole = it.Staged(1 << 63, 4, 2, 50, 17, 2, 900, 950, True, 2)
    layouts = [it.Layout(0, b"schema", ("id",)), it.Layout(5, b"schema", ("id",), (it.DropColumn("a"),))]
    indexes = [it.Index("by_id", "id", "btree", {}), it.Index("by_text", "text", "inverted", {"stem": True}, 12)]
    return [
        *(it.Put(TABLE, rows) for rows in (inline, plain, whole)),
        *(it.Overwrite(TABLE, rows) for rows in (inline, plain, whole)),
        it.Upsert(TABLE, inline),
        it.Upsert(TABLE, plain, None, True),
        it.Upsert(TABLE, whole, 2),
        it.DeleteKeys(TABLE, 1, 3),
        it.DeleteRows(TABLE, 2, 3),
        it.DeleteWhere(TABLE, "a > 1 and text <> 'ö'"),
        it.UpdateWhere(TABLE, (("a", "a + 1"), ("text", "null")), "a = 1"),
        it.UpdateWhere(TABLE, (("a", "0"),), None),
        it.Put(TABLE, inline, 5),
        it.Upsert(TABLE, inline, None, False, 5),
        it.Overwrite(TABLE, inline, 5),
        it.DeleteKeys(TABLE, 1, 3, 5),
        it.DeleteWhere(TABLE, "a > 1", 5),
        it.UpdateWhere(TABLE, (("a", "0"),), None, (1 << 63) - 1),
        it.Alter(TABLE, 0, it.Layout(5, b"schema", ("id",), tuple(every_step()))),
        it.Alter(TABLE, 5, it.Layout((1 << 63) - 1, b"schema", ())),
        it.Restore(TABLE, 41, 1 << 63, 950, tuple(layouts), tuple(indexes)),
        it.Restore(TABLE, 0, 0, 0, (layouts[0],), ()),
        it.Advance(TABLE, 8, (1 << 64) - 1, 950),
        it.Advance(TABLE, 8, 1 << 63, 950, layouts[1], ("id", "text")),
    ]


def every_step() -> list[it.Step]:
    """Every kind of change to a table's columns."""
    return [
        it.AddColumn(b"field", None),
        it.AddColumn(b"field", "a + 1"),
        it.DropColumn("a"),
        it.RenameColumn("a", "b"),
        it.WidenColumn("a", b"field"),
        it.OrderColumns(("text", "id")),
        it.SetNullable("a", True),
        it.SetNullable("b", False),
    ]


def golden() -> Sealed:
    return seal(Transaction(b"1" * 16, "everything", tuple(every_action()), len(PAYLOADS)), PAYLOADS)


def arrow_payload() -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"id": [1, 2], "text": ["a", None]})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def sample() -> tuple[bytes, list[Sealed]]:
    first = golden()
    payloads = (arrow_payload(), b"")
    second = seal(Transaction(b"2" * 16, "", (), len(payloads), {"future": [1, "x"]}), payloads)
    return entry.encode(LAKE, ATTEMPT, 1_700_000_000_000_000, "ann@host:1", [first, second])[0], [first, second]


def test_every_kind_of_action_is_in_the_golden_entry() -> None:
    """The sample covers the whole vocabulary."""
    assert {type(action) for action in every_action()} == set(do.Action.__args__)
    assert {type(step) for step in every_step()} == set(it.Step.__args__)


def test_golden_bytes_are_what_is_written_today() -> None:
    """The format does not change by accident: the same entry gives the bytes that are checked in."""
    data, _ = entry.encode(LAKE, ATTEMPT, 1_700_000_000_000_000, "ann@host:1", [golden()])
    assert data.hex() == (GOLDEN / "entry-1.hex").read_text().strip()


def test_golden_bytes_can_be_read() -> None:
    """An entry written by the first release is still understood."""
    found = entry.decode(bytes.fromhex((GOLDEN / "entry-1.hex").read_text()), "golden")
    assert found.transactions[0].actions == tuple(every_action())
    assert tuple(map(bytes, found.payloads)) == PAYLOADS
    assert (found.lake, found.attempt, found.time, found.writer) == (LAKE, ATTEMPT, 1_700_000_000_000_000, "ann@host:1")


def test_what_is_written_is_read_back() -> None:
    """Transactions, payloads and unknown optional fields survive a round trip."""
    data, sealed = sample()
    found = entry.decode(data, "sample")
    assert found.transactions == tuple(one.transaction for one in sealed)
    assert found.transactions[1].extra == {"future": [1, "x"]}
    assert [bytes(payload) for payload in found.payloads] == [*PAYLOADS, *sealed[1].payloads]
    table = pa.ipc.open_stream(pa.py_buffer(found.payloads[len(PAYLOADS)])).read_all()
    assert table.to_pylist() == [{"id": 1, "text": "a"}, {"id": 2, "text": None}]


def test_any_flipped_bit_is_found() -> None:
    """Every single bit of an entry is covered by a check."""
    data, _ = sample()
    for at in range(len(data)):
        for bit in (1, 128):
            damaged = data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
            with pytest.raises((CorruptionError, UnsupportedError)):
                entry.decode(damaged, "damaged")


def test_any_truncation_is_found() -> None:
    """Every prefix of an entry is refused."""
    data, _ = sample()
    for size in range(len(data)):
        with pytest.raises(CorruptionError, match="phalanx check"):
            entry.decode(data[:size], "short")


@given(st.binary(max_size=4096))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    """Garbage gives a typed error and nothing else."""
    with pytest.raises(CorruptionError):
        entry.decode(data, "garbage")


@given(st.binary(max_size=512), st.lists(st.binary(max_size=64), max_size=3))
@example(b"\x93\x00\xa3\x00\x00\x80", [])  # a text that is none
def test_a_valid_frame_with_any_body_is_refused_or_read(body: bytes, payloads: list[bytes]) -> None:
    """The body is decoded strictly, whatever a well-formed envelope holds."""
    data, _ = frame.encode(entry.MAGIC, LAKE, ATTEMPT, body, payloads)
    with pytest.raises(CorruptionError):
        entry.decode(data, "odd body")


def test_a_newer_format_is_refused_with_what_to_do() -> None:
    """A checksum that is right and a format that is not known: newer, not damaged."""
    data, _ = sample()
    newer = bytearray(data)
    newer[8] = 2
    newer[48:80] = frame._checksum(bytes(newer[:48]), bytes(newer[80:]))
    with pytest.raises(UnsupportedError, match="upgrade Phalanx"):
        entry.decode(bytes(newer), "newer")


def test_an_unknown_required_feature_is_refused_by_its_bit() -> None:
    """I14: refused, not guessed."""
    data, _ = frame.encode(entry.MAGIC, LAKE, ATTEMPT, b"", features=1 << 40)
    with pytest.raises(UnsupportedError, match="0x10000000000"):
        entry.decode(data, "future")


def test_padding_must_be_zero() -> None:
    """Every byte is accounted for, also those between payloads."""
    data, _ = frame.encode(entry.MAGIC, LAKE, ATTEMPT, b"x", [b"payload"])
    hidden = bytearray(data)
    hidden[110] = 1
    hidden[48:80] = frame._checksum(bytes(hidden[:48]), bytes(hidden[80:]))
    with pytest.raises(CorruptionError, match="lengths do not add up"):
        entry.decode(bytes(hidden), "hidden")


def test_a_payload_that_is_too_large_is_refused_before_anything_is_written() -> None:
    """What does not fit into an entry has to be written in bulk."""
    with pytest.raises(InvalidInputError, match="in bulk"):
        seal(Transaction(b"1" * 16, "", (), 1), [bytes(frame.MAX_FRAME)])


@pytest.mark.parametrize(
    "action",
    [
        do.CreateTable(("",), TABLE, {}),
        do.CreateTable((), TABLE, {}),
        do.CreateTable(("t",), "../x", {}),
        do.PutTag("t", -1, False),
        do.SetProperty("k" * 300, "v"),
        do.Progress("s", None, 1 << 63),
        it.Put("t", it.Inline(0, 1)),
        it.Put(TABLE, it.Inline(-1, 1)),
        it.Put(TABLE, it.Inline(0, -1)),
        it.Put(TABLE, it.Inline(0, 1 << 63)),
        it.DeleteWhere(TABLE, "x" * (it.MAX_SQL + 1)),
        it.UpdateWhere(TABLE, (("", "1"),), None),
        it.Flush(TABLE, 0, -1, 0, 1, 2, 0, 1),
        it.Rewrite(TABLE, 0, 1, 1 << 64, (0,), 1),
        it.DeclareIndex(TABLE, "i", "c", "hash", {}),  # type: ignore[arg-type]
        it.DropIndex(TABLE, ""),
        do.DeregisterTable(("t",), "t"),
        do.ReviveTable(("t",), TABLE, {}, -1, 1),
        do.ReviveTable(("t",), TABLE, {}, 1, 1 << 63),
        do.ReviveTable(("t",), TABLE, {}, 1, 1, bytes((1 << 24) + 1)),
        do.ReviveTable(("t",), TABLE, {}, 1, 1, b"", ((-1, 1),)),
        it.Put(TABLE, it.Inline(0, 1), -1),
        it.DeleteWhere(TABLE, "true", 1 << 63),
        it.Alter(TABLE, -1, it.Layout(1, b"", ())),
        it.Alter(TABLE, 0, it.Layout(-1, b"", ())),
        it.Alter(TABLE, 0, it.Layout(1, b"", ("",))),
        it.Alter(TABLE, 0, it.Layout(1, b"", (), (it.DropColumn(""),))),
        it.Alter(TABLE, 0, it.Layout(1, b"", (), (it.AddColumn(b"", "x" * (it.MAX_SQL + 1)),))),
        it.Restore(TABLE, 1, 1, 0, (), ()),
        it.Restore(TABLE, 1, -1, 0, (it.Layout(1, b"", ()),), ()),
        it.Restore(TABLE, 1, 1, 0, (it.Layout(1, b"", ()),), (it.Index("i", "c", "hash", {}),)),  # type: ignore[arg-type]
        it.Advance(TABLE, -1, 1, 0),
        it.Claim(TABLE, 0, (-1,), "a", 0, 1),
        it.Claim(TABLE, 0, (), "a", 0, 1),
        it.Claim(TABLE, 0, (1,), "", 0, 1),
        it.Claim(TABLE, 0, (1,), "a" * 257, 0, 1),
        it.Claim(TABLE, 0, (1,), "a", 0, -1),
        it.DeleteVersions(TABLE, ((-1, 1),)),
        it.DeleteVersions(TABLE, ((1,),)),  # type: ignore[arg-type]
    ],
)
def test_an_action_that_could_not_be_read_back_is_never_written(action: do.Action) -> None:
    """The writer checks with the reader's own rules."""
    with pytest.raises((InvalidInputError, OverflowError)):
        seal(Transaction(b"1" * 16, "", (action,)))


def test_each_transaction_gets_its_own_payloads() -> None:
    """In the order of their places, whoever has none in between, and the landing says where it is."""
    counts = [2, 0, 1, 3, 0]
    held = [[bytes([place, number]) for number in range(count)] for place, count in enumerate(counts)]
    sealed = [seal(Transaction(bytes([n]) * 16, "", (), len(one)), one) for n, one in enumerate(held, start=1)]
    found = entry.decode(entry.encode(LAKE, ATTEMPT, 0, "w", sealed)[0], "several")
    landings = [(landing.position, landing.place, list(landing.payloads)) for landing, _ in found.landings(7)]
    assert landings == [(7, place, one) for place, one in enumerate(held)]
    assert [transaction for _, transaction in found.landings(7)] == [one.transaction for one in sealed]


@pytest.mark.parametrize("action", [action for action in every_action() if it.payloads_of(action)], ids=repr)
def test_a_change_brings_every_payload_that_it_speaks_of(action: do.Action) -> None:
    """Otherwise nobody could ever read its table again: it is refused before anything is written."""
    most = max(it.payloads_of(action))
    seal(Transaction(b"1" * 16, "", (action,), most + 1), PAYLOADS[: most + 1])
    with pytest.raises(InvalidInputError, match="speaks of rows that it does not bring"):
        seal(Transaction(b"1" * 16, "", (action,), most), PAYLOADS[:most])


@pytest.mark.parametrize("said", [0, 1, 3])
def test_payloads_that_do_not_add_up_are_refused(said: int) -> None:
    """The number that transactions name is the number that the frame holds."""
    body = (0, "w", [(b"1" * 16, "", [], said)])
    data, _ = frame.encode(entry.MAGIC, LAKE, ATTEMPT, msgspec.msgpack.encode(body), [b"one", b"two"])
    with pytest.raises(CorruptionError, match="payloads do not add up"):
        entry.decode(data, "odd")


def test_the_cap_on_transactions_holds_when_decoding() -> None:
    """An entry with more transactions than may be written is refused."""
    one = seal(Transaction(b"1" * 16, "", ()))
    data, _ = entry.encode(LAKE, ATTEMPT, 0, "w", [one] * (entry.MAX_TRANSACTIONS + 1))
    with pytest.raises(CorruptionError):
        entry.decode(data, "many")
