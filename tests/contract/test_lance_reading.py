"""What Phalanx relies on when it reads with Lance: hidden rows, row ids and addresses, expressions, types, threads."""

import datetime as dt
import random
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.dataset import LanceDataset, LanceOperation, ScannerBuilder, serialize_row_addrs

from phalanx.tables.nearest import nearest
from tests.contract.lance_kit import add, begin, commit, hide, ids, numbers, pairs, place, reopened, rewritten, values


@pytest.fixture
def head(tmp_path: Path) -> LanceDataset:
    """Nine rows, 10 to 18 with the ids 0 to 8: three as they were written, six rewritten elsewhere."""
    written = add(begin(tmp_path / "table"), numbers(10, 11, 12), numbers(13, 14, 15), numbers(16, 17, 18))
    made = place(written, rewritten(written, excluded_fragment_ids=[0]))
    assert pairs(made) == list(zip(range(9), range(10, 19), strict=True))
    return reopened(made)


def test_a_blocklist_takes_stable_row_ids(head: LanceDataset) -> None:
    """Despite its name, which speaks of addresses: those of rows 3 to 8 are far beyond 3 to 8."""
    assert values(head, row_addr_blocklist=ids(1, 3, 8)) == [10, 12, 14, 15, 16, 17]
    assert values(head, row_addr_allowlist=ids(1, 3, 8)) == [11, 13, 18]
    assert values(head, row_addr_allowlist=ids(1, 3, 8), row_addr_blocklist=ids(3)) == [11, 18]


def test_a_blocklist_goes_with_everything_else_of_a_scan(head: LanceDataset) -> None:
    """Rows are hidden before they are filtered, counted, ordered, or cut off."""
    hidden = ids(1, 3, 8)
    last = [head.get_fragments()[-1]]
    assert values(head, row_addr_blocklist=hidden, filter="a > 13") == [14, 15, 16, 17]
    assert values(head, row_addr_blocklist=hidden, fragments=last) == [14, 15, 16, 17]
    assert values(head, row_addr_blocklist=hidden, fragments=last, filter="a > 15") == [16, 17]
    assert values(head, row_addr_blocklist=hidden, limit=2, offset=1) == [12, 14]
    assert values(head, row_addr_blocklist=hidden, limit=2, filter="a > 11") == [12, 14]
    assert values(head, row_addr_blocklist=hidden, order_by=["a"]) == [10, 12, 14, 15, 16, 17]


def test_rows_are_counted_without_those_on_a_blocklist(head: LanceDataset) -> None:
    """With and without a filter, over all fragments and over some."""
    hidden = ids(1, 3, 8)
    last = [head.get_fragments()[-1]]
    assert head.scanner(row_addr_blocklist=hidden).count_rows() == 6
    assert head.scanner(row_addr_blocklist=hidden, filter="a > 13").count_rows() == 4
    assert head.scanner(row_addr_blocklist=hidden, fragments=last).count_rows() == 4
    assert head.scanner(row_addr_blocklist=hidden, columns=[], with_row_id=True, filter="a > 15").count_rows() == 2


def test_a_blocklist_may_name_rows_that_are_not_there(head: LanceDataset) -> None:
    """Deleted ones, ids that were never given, or none at all."""
    left = hide(head, [1, 8])
    assert values(left, row_addr_blocklist=ids(1, 3)) == [10, 12, 14, 15, 16, 17]
    assert values(left, row_addr_allowlist=ids(1, 3)) == [13]
    assert values(left, row_addr_blocklist=ids(4000, 1 << 40)) == [10, 12, 13, 14, 15, 16, 17]
    assert values(left, row_addr_blocklist=ids()) == [10, 12, 13, 14, 15, 16, 17]
    assert values(left, row_addr_allowlist=ids()) == []


def test_a_blocklist_is_right_on_any_history_of_fragments(tmp_path: Path) -> None:
    """A model: random appends, deletions and rewrites, then random scans."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    head, model = begin(tmp_path / "table"), dict[int, int]()
    given = 0
    for _ in range(30):
        added = range(given, given + chance.randrange(1, 40))
        head, given = add(head, numbers(*(id_ % 10 for id_ in added))), added.stop
        model |= {id_: id_ % 10 for id_ in added}
        if chance.random() < 0.5:
            gone = chance.sample(sorted(model), min(len(model), chance.randrange(1, 30)))
            head = hide(head, gone)
            model = {id_: value for id_, value in model.items() if id_ not in gone}
        if chance.random() < 0.2 and len(head.get_fragments()) > 1:
            head = place(head, rewritten(head))
        hidden = set(chance.sample(range(given + 5), chance.randrange(given)))
        least = chance.randrange(11)
        expected = [(id_, value) for id_, value in model.items() if id_ not in hidden and value >= least]
        options = {"row_addr_blocklist": ids(*hidden), "filter": f"a >= {least}"}
        assert sorted(pairs(head, **options)) == sorted(expected)
        assert head.scanner(**options).count_rows() == len(expected)


def test_an_index_and_a_blocklist_agree(head: LanceDataset) -> None:
    """An index made for a detached version finds what a scan finds: after an append, a deletion, with rows hidden."""
    fragments = [fragment.fragment_id for fragment in head.get_fragments()]
    index = head.create_index_uncommitted("a", "BTREE", name="by_a", fragment_ids=fragments)
    indexed = commit(head, LanceOperation.CreateIndex([index], []))
    assert "ScalarIndexQuery" in indexed.scanner(filter="a = 14").explain_plan()
    later = hide(add(indexed, numbers(14, 15)), [0])
    assert pairs(later, filter="a in (10, 14)") == [(4, 14), (9, 14)]
    assert pairs(later, filter="a in (10, 14)", row_addr_blocklist=ids(4)) == [(9, 14)]


def test_the_nearest_vectors_are_taken_from_rows_that_are_not_hidden(tmp_path: Path) -> None:
    """Never fewer than asked for, because nothing is taken away afterwards."""
    points = pa.FixedSizeListArray.from_arrays(pa.array([float(x) for x in range(200)], pa.float32()), 2)
    rows = pa.table({"v": points})
    head = add(begin(tmp_path / "table", rows.schema), rows)
    found = head.scanner(
        nearest={"column": "v", "q": [0.0, 1.0], "k": 5}, with_row_id=True, row_addr_blocklist=ids(*range(20))
    ).to_table()
    assert found["_rowid"].to_pylist() == [20, 21, 22, 23, 24]


def test_row_ids_and_addresses_come_together(head: LanceDataset) -> None:
    """An address is the fragment's id and the offset in it; no other column needs to be read."""
    found = head.scanner(columns=[], with_row_id=True, with_row_address=True).to_table()
    second = head.get_fragments()[1].fragment_id << 32
    assert found["_rowid"].to_pylist() == list(range(9))
    assert found["_rowaddr"].to_pylist() == [0, 1, 2, *range(second, second + 6)]


def test_addresses_are_found_by_row_id(head: LanceDataset) -> None:
    """In the order asked for; rows that are deleted or never were are left out; no column is read."""
    left = hide(head, [8])
    second = head.get_fragments()[1].fragment_id << 32
    found = left._take_rows([4, 8, 1, 999], columns=["_rowid", "_rowaddr"])
    assert found.to_pydict() == {"_rowid": [4, 1], "_rowaddr": [second + 1, 1]}
    assert left._take_rows([8], columns=["_rowid", "_rowaddr"]).num_rows == 0
    assert left._take_rows(pa.array([2], pa.uint64()), columns=["a"]).to_pydict() == {"a": [12]}
    scanned = left.scanner(columns=[], with_row_address=True, row_addr_allowlist=ids(4, 8, 1, 999)).to_table()
    assert sorted(scanned["_rowaddr"].to_pylist()) == [1, second + 1]
    filtered = left.scanner(columns=[], filter="_rowid in (1, 4, 8)", with_row_address=True).to_table()
    assert sorted(filtered["_rowaddr"].to_pylist()) == [1, second + 1]


def test_a_scan_computes_expressions(head: LanceDataset) -> None:
    """What an update needs: new values beside the row ids of the rows they are for, hidden rows left out."""
    scanner = head.scanner(columns={"a": "a * 2 + 1"}, filter="a > 14", with_row_id=True, row_addr_blocklist=ids(5, 6))
    assert scanner.to_table().to_pydict() == {"a": [35, 37], "_rowid": [7, 8]}


def test_some_expressions_of_datafusion_are_refused(head: LanceDataset) -> None:
    """So an expression is planned with every engine that may have to evaluate it, before it is logged (rule C9)."""
    with pytest.raises(ValueError, match="not supported SQL"):
        head.scanner(columns={"b": "case when a > 3 then 1 else 0 end"}).to_table()
    with pytest.raises(ValueError, match="nothing"):
        head.scanner(filter="nothing > 3").to_table()


def test_a_version_opens_from_the_bytes_of_its_manifest(head: LanceDataset) -> None:
    """Without a look at storage, and with all that is needed to go on from there."""
    opened = LanceDataset(head.uri, serialized_manifest=head._ds.serialized_manifest())
    assert opened.version == head.version
    assert pairs(add(opened, numbers(19)))[-1] == (9, 19)


def test_one_version_is_opened_and_read_by_many_threads(head: LanceDataset) -> None:
    """On one shared session, as the lake does it, and while others commit on it."""
    session = lance.Session()

    def work(number: int) -> bool:
        opened = lance.dataset(head.uri, version=head.version, session=session)
        made = add(opened, numbers(number))
        return values(opened) == list(range(10, 19)) and pairs(made)[-1] == (9, number)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(100)))


def test_a_version_that_is_not_there_is_not_found(head: LanceDataset) -> None:
    """And never replaced by another one."""
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(head.uri, version=head.version ^ 1)


KEPT = [
    (pa.bool_(), True),
    (pa.int8(), -1),
    (pa.uint64(), (1 << 64) - 1),
    (pa.float16(), 1.5),
    (pa.float64(), 0.1),
    (pa.string(), ""),
    (pa.large_string(), "ö"),
    (pa.binary(), b"\0"),
    (pa.large_binary(), b""),
    (pa.binary(2), b"ab"),
    (pa.date32(), dt.date(1960, 1, 1)),
    (pa.date64(), dt.date(2020, 1, 1)),
    (pa.time64("us"), dt.time(1, 2, 3)),
    (pa.timestamp("us", "UTC"), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
    (pa.duration("us"), dt.timedelta(1)),
    (pa.decimal128(20, 2), Decimal("1.25")),
    (pa.decimal256(40, 2), Decimal("-1.25")),
    (pa.list_(pa.int64()), [1, None]),
    (pa.large_list(pa.string()), []),
    (pa.list_(pa.float32(), 2), [1.0, None]),
    (pa.list_(pa.struct([("x", pa.int64())]), 1), [{"x": 1}]),
    (pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]), {"x": None, "y": ["z"]}),
    (pa.map_(pa.string(), pa.int64()), [("k", 1)]),
    (pa.list_(pa.map_(pa.string(), pa.struct([("x", pa.int64())]))), [[("k", {"x": None})]]),
    (pa.dictionary(pa.int32(), pa.string()), "a"),
    (pa.null(), None),
]


@pytest.mark.parametrize(("kind", "value"), KEPT, ids=str)
def test_a_type_is_kept(tmp_path: Path, kind: pa.DataType, value: object) -> None:
    """Values and nulls, through writing, a rewrite and a filter."""
    rows = pa.table({"c": pa.array([value, None, value], kind)})
    head = add(begin(tmp_path / "table", rows.schema), rows, rows)
    head = place(head, rewritten(head))
    expected = [*rows["c"].to_pylist(), *rows["c"].to_pylist()]
    assert head.schema.types == [kind]
    assert head.to_table()["c"].to_pylist() == expected
    filtered = head.to_table(filter="c is not null")["c"].to_pylist()
    assert filtered == [one for one in expected if one is not None]


@pytest.mark.parametrize(("kind", "kept"), [(pa.string_view(), pa.string()), (pa.binary_view(), pa.binary())], ids=str)
def test_a_view_comes_back_as_what_it_views(tmp_path: Path, kind: pa.DataType, kept: pa.DataType) -> None:
    """A table's schema is what Lance makes of it, not what was asked for."""
    assert begin(tmp_path / "table", pa.schema([("c", kind)])).schema.types == [kept]


REFUSED = [
    pa.month_day_nano_interval(),
    pa.decimal32(5, 2),
    pa.decimal64(10, 2),
    pa.list_view(pa.int64()),
    pa.run_end_encoded(pa.int32(), pa.int64()),
    pa.dense_union([pa.field("x", pa.int64())]),
]


@pytest.mark.parametrize("kind", REFUSED, ids=str)
def test_a_type_is_refused_before_anything_is_written(tmp_path: Path, kind: pa.DataType) -> None:
    """The first version of a table already says so."""
    with pytest.raises((ValueError, OSError, NotImplementedError), match="Unsupported data type"):
        begin(tmp_path / "table", pa.schema([("c", kind)]))


def test_serializing_row_ids_takes_any_order_and_repeats() -> None:
    """It is a set."""
    assert bytes(serialize_row_addrs([3, 1, 1])) == ids(1, 3)


def test_what_a_search_asks_for_is_a_dict_of_its_builder_which_is_copied(tmp_path: Path) -> None:
    """Under this name, so that the copy can be spared; answers are the same with it and without, nearest first."""
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([float(at % 7) for at in range(40)], pa.float32()), 2)
    dataset = lance.write_dataset(pa.table({"id": list(range(20)), "v": vectors}), tmp_path / "v", max_rows_per_file=5)
    query = {"column": "v", "q": pa.array([1.0, 2.0], pa.float32()), "k": 9, "metric": "l2"}
    builder: Any = ScannerBuilder(dataset).columns(["id", "_distance"]).nearest(**query)
    assert type(vars(builder)["_nearest"]) is dict
    copied = vars(builder.to_scanner())["_snapshot"]["_nearest"]
    assert copied is not vars(builder)["_nearest"]
    asked = {"columns": ["id", "_distance"], "nearest": query}
    for where, without, only in (
        (None, None, None),
        ("id > 3", None, None),
        (None, ids(1, 8), None),
        (None, None, ids(4, 5)),
    ):
        limits = {"filter": where, "row_addr_blocklist": without, "row_addr_allowlist": only}
        own = dataset.scanner(
            **asked, **limits, prefilter=any(one is not None for one in (where, without, only))
        ).to_table()
        found = nearest(dataset, ["id"], query, where=where, without=without, only=only, row_ids=False)
        assert found.equals(own)
        distances = found.column("_distance").to_pylist()
        assert distances == sorted(distances)
