"""What Phalanx relies on when it writes with Lance: detached versions, row ids, deletions, rewriting.

Each law was observed, not read: a release of Lance that changes one turns a test red, not a lake.
"""

import dataclasses
import json
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.dataset import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata, write_fragments
from lance.optimize import Compaction, CompactionTask
from lance.schema import LanceSchema

from tests.contract.lance_kit import (
    add,
    begin,
    commit,
    hide,
    metadata,
    next_row_id,
    numbers,
    pairs,
    place,
    reopened,
    rewritten,
    values,
)


@pytest.fixture
def empty(tmp_path: Path) -> LanceDataset:
    """A guarded table without rows."""
    return begin(tmp_path / "table")


def test_detached_versions_chain_and_every_link_stays_readable(empty: LanceDataset) -> None:
    """Each is a function of its base and an operation; none is found unless told its number."""
    chain = [empty]
    for value in range(20):
        chain.append(add(reopened(chain[-1]), numbers(value)))
    assert all(version.version >= 1 << 63 for version in chain)
    assert len({version.version for version in chain}) == 21
    assert [reopened(version).count_rows() for version in chain] == list(range(21))


def test_lance_does_not_begin_a_dataset_with_a_detached_version(tmp_path: Path) -> None:
    """Hence genesis; once this works, genesis can go."""
    with pytest.raises(OSError, match="cannot currently be used to create new datasets"):
        LanceDataset.commit(str(tmp_path / "table"), LanceOperation.Overwrite(numbers().schema, []), detached=True)


def test_a_detached_commit_checks_no_conflict_and_no_read_version(empty: LanceDataset) -> None:
    """Two children of one base both succeed, and the number that was read is not looked at: judging is ours."""
    left, right = add(empty, numbers(1)), add(empty, numbers(2))
    assert (values(left), values(right)) == ([1], [2])
    fragments = write_fragments(numbers(3), left)
    for read_version in (0, 1, right.version):
        made = LanceDataset.commit(left, LanceOperation.Append(fragments), read_version=read_version, detached=True)
        assert values(made) == [1, 3]


def test_a_detached_commit_draws_numbers_until_one_is_free(empty: LanceDataset) -> None:
    """What it calls retries are the draws: with none of them nothing can be committed."""
    operation = LanceOperation.Append(write_fragments(numbers(1), empty))
    with pytest.raises(OSError, match="unused random"):
        LanceDataset.commit(empty, operation, read_version=empty.version, detached=True, max_retries=0)
    made = LanceDataset.commit(empty, operation, read_version=empty.version, detached=True, max_retries=1)
    assert values(made) == [1]


def test_transaction_files_are_never_read_again(empty: LanceDataset) -> None:
    """Lance writes one for each commit; a version opens and goes on without, so they need not be kept or synced."""
    head = add(empty, numbers(1))
    shutil.rmtree(Path(head.uri, "_transactions"))
    assert values(add(reopened(head), numbers(2))) == [1, 2]


def test_staged_fragments_survive_as_json(empty: LanceDataset) -> None:
    """So that they can travel in an entry, or from one process to another."""
    [staged] = write_fragments(numbers(1, 2), empty)
    assert FragmentMetadata.from_json(json.dumps(staged.to_json())) == staged
    assert (staged.id, staged.row_id_meta, staged.deletion_file, staged.physical_rows) == (0, None, None, 2)


def test_staging_takes_columns_in_any_order_and_fills_what_is_missing(tmp_path: Path) -> None:
    """But neither another type, nor a column more, nor nulls where none may be."""
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string()), ("f", pa.float64())])
    head = begin(tmp_path / "table", schema)
    rows = pa.table({"s": ["x"], "k": [1]})
    assert add(head, rows).to_table().to_pylist() == [{"k": 1, "s": "x", "f": None}]
    assert write_fragments(schema.empty_table(), head) == []
    wrong = [
        rows.append_column("more", pa.array([1])),
        rows.drop_columns(["k"]),
        rows.set_column(1, "k", pa.array([1], pa.int32())),
        rows.set_column(1, "k", pa.array([None], pa.int64())),
    ]
    for table in wrong:
        with pytest.raises(OSError, match=r"different schema|marked non-null"):
            write_fragments(table, head)


def test_appended_rows_get_the_next_row_ids_in_order(empty: LanceDataset) -> None:
    """The first fresh id is the number of rows ever added; fragments get them in the order they are given."""
    head = add(empty, numbers(10, 11))
    fragments = [*write_fragments(numbers(12), head), *write_fragments(numbers(13, 14), head)]
    head = commit(head, LanceOperation.Append(fragments))
    assert pairs(head) == [(0, 10), (1, 11), (2, 12), (3, 13), (4, 14)]
    assert next_row_id(head) == 5


def test_neither_deleting_nor_rewriting_moves_the_counter(empty: LanceDataset) -> None:
    """Not even when the newest rows, or all of them, go: an id is given once in a chain."""
    head = hide(add(empty, numbers(1, 2), numbers(3, 4), numbers(5)), [2, 3])
    assert next_row_id(head) == 5
    head = place(head, rewritten(head))
    assert next_row_id(head) == 5
    head = hide(head, [0, 1, 4])
    assert (head.count_rows(), next_row_id(head)) == (0, 5)
    assert pairs(add(head, numbers(6))) == [(5, 6)]


def test_an_update_and_an_overwrite_give_fresh_ids_too(empty: LanceDataset) -> None:
    """Removing fragments and adding others in one version goes on with the counter; so does overwriting."""
    head = add(empty, numbers(1, 2), numbers(3))
    left = head.get_fragment(0).delete_rows([0])
    fragments = write_fragments(numbers(4, 5), head)
    made = commit(head, LanceOperation.Update([1], [left], fragments))
    assert (pairs(made), next_row_id(made)) == ([(1, 2), (3, 4), (4, 5)], 5)
    made = commit(head, LanceOperation.Overwrite(head.schema, write_fragments(numbers(6), head, mode="overwrite")))
    assert (pairs(made), next_row_id(made)) == ([(3, 6)], 4)


def test_a_merge_keeps_old_row_ids_on_new_rows(empty: LanceDataset) -> None:
    """Why flush hides and appends instead (rule C4): a row id must never come to mean another row."""
    head = add(empty, numbers(1, 2))
    builder = head.merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
    transaction, _ = builder.execute_uncommitted(numbers(2, 5))
    assert pairs(LanceDataset.commit(head, transaction, detached=True)) == [(0, 1), (1, 2), (2, 5)]


def test_two_branches_give_one_row_id_to_two_rows(empty: LanceDataset) -> None:
    """Row ids count only once their head is committed (rule C6)."""
    head = add(empty, numbers(1))
    assert pairs(add(head, numbers(2)))[1] == (1, 2)
    assert pairs(add(head, numbers(3)))[1] == (1, 3)


def test_fragments_staged_on_one_head_are_appended_to_another(empty: LanceDataset) -> None:
    """Fresh from the writer they fit any head of the same schema: fragment ids and row ids are given by the commit."""
    base = add(empty, numbers(1, 2))
    staged = write_fragments(numbers(8, 9), base)
    head = hide(add(base, numbers(3)), [0])
    made = commit(head, LanceOperation.Append(staged))
    assert pairs(made) == [(1, 2), (2, 3), (3, 8), (4, 9)]
    assert values(commit(made, LanceOperation.Append(staged))) == [2, 3, 8, 9, 8, 9]


def test_fragments_of_a_staged_version_are_adopted_stripped_of_their_ids(empty: LanceDataset) -> None:
    """With the fragment id 0 and no row ids they are like new, on any head."""
    base = add(empty, numbers(1))
    staged = metadata(add(base, numbers(8, 9)))[1]
    head = add(base, numbers(2), numbers(3))
    bare = dataclasses.replace(
        staged, id=0, row_id_meta=None, created_at_version_meta=None, last_updated_at_version_meta=None
    )
    made = commit(head, LanceOperation.Append([bare]))
    assert pairs(made) == [(0, 1), (1, 2), (2, 3), (3, 8), (4, 9)]
    assert next_row_id(made) == 5
    assert [fragment.id for fragment in metadata(made)] == [0, 1, 2, 3]


def test_fragments_that_keep_their_ids_do_harm_in_another_head(empty: LanceDataset) -> None:
    """A fragment id that is taken is refused; row ids that are taken are not: two rows then share one."""
    base = add(empty, numbers(1))
    staged = metadata(add(base, numbers(9)))[1]
    head = add(base, numbers(2))
    with pytest.raises(OSError, match="two fragments with id 1"):
        commit(head, LanceOperation.Append([staged]))
    made = commit(head, LanceOperation.Append([dataclasses.replace(staged, id=0)]))
    assert pairs(made) == [(0, 1), (1, 2), (1, 9)]


def test_a_fragment_with_deletions_cannot_be_moved(empty: LanceDataset) -> None:
    """The name of a deletion file holds the fragment's id; under another id it is not found, and that late."""
    staged = hide(add(empty, numbers(1), numbers(8, 9)), [1])
    [_, moved] = metadata(staged)
    assert moved.deletion_file is not None
    name = moved.deletion_file.path(moved.id)
    assert name.startswith(f"_deletions/{moved.id}-")
    assert Path(staged.uri, name).exists()
    head = add(empty, numbers(1), numbers(2), numbers(3))
    made = commit(head, LanceOperation.Append([dataclasses.replace(moved, id=0, row_id_meta=None)]))
    with pytest.raises((OSError, ValueError), match="Not found"):
        values(made)


def test_deleting_unites_with_what_its_own_head_has_deleted(empty: LanceDataset) -> None:
    """Offsets count rows that are gone; repeated, deleted and no offsets are fine; nothing left is None."""
    head = hide(add(empty, numbers(1, 2, 3, 4)), [0])
    fragment = head.get_fragment(0)
    made = commit(head, LanceOperation.Delete([fragment.delete_rows([2, 2, 0])], [], ""))
    assert pairs(made) == [(1, 2), (3, 4)]
    assert fragment.delete_rows([]).num_deletions == 1
    assert fragment.delete_rows([1, 2, 3]) is None
    with pytest.raises(ValueError, match="out of range"):
        fragment.delete_rows([4])


def test_many_deletions_are_kept_as_a_bitmap(empty: LanceDataset) -> None:
    """A deletion file has one of two endings."""
    head = add(empty, numbers(*range(20_000)))
    for offsets, kind, ending in ([0], "array", ".arrow"), (range(0, 20_000, 2), "bitmap", ".bin"):
        left = head.get_fragment(0).delete_rows(list(offsets))
        assert left.deletion_file.file_type == kind
        assert left.deletion_file.path(0).endswith(ending)
        assert Path(head.uri, left.deletion_file.path(0)).exists()


def test_a_stale_deletion_brings_rows_back(empty: LanceDataset) -> None:
    """Known bug 39, as Lance behaves: a commit replaces the deletion file, whatever has been deleted since (rule C3)."""
    base = add(empty, numbers(1, 2, 3))
    mine, theirs = (base.get_fragment(0).delete_rows([offset]) for offset in (0, 1))
    head = commit(base, LanceOperation.Delete([theirs], [], ""))
    assert values(head) == [1, 3]
    assert values(commit(head, LanceOperation.Delete([mine], [], ""))) == [2, 3]
    assert values(commit(head, LanceOperation.Update([], [mine], []))) == [2, 3]
    assert values(hide(head, [0])) == [3]


def test_a_deletion_in_a_fragment_that_is_gone_is_ignored(empty: LanceDataset) -> None:
    """Nothing says so: whoever stages deletions compares the fragments first."""
    base = add(empty, numbers(1, 2), numbers(3))
    stale = base.get_fragment(0).delete_rows([0])
    head = place(base, rewritten(base))
    assert values(commit(head, LanceOperation.Update([], [stale], []))) == [1, 2, 3]


def test_row_ids_survive_a_rewrite(empty: LanceDataset) -> None:
    """Deleted rows are left out, the others keep their ids at new addresses, also through JSON and on a newer head."""
    base = hide(add(empty, numbers(1, 2), numbers(3), numbers(4, 5)), [1])
    [task] = Compaction.plan(base, {"target_rows_per_fragment": 100}).tasks
    result = CompactionTask.from_json(task.json()).execute(reopened(base))
    made = place(add(base, numbers(6)), result)
    assert sorted(pairs(made)) == [(0, 1), (2, 3), (3, 4), (4, 5), (5, 6)]
    assert len(made.get_fragments()) == 2
    assert pairs(add(made, numbers(7)))[-1] == (6, 7)


def test_a_rewrite_brings_back_rows_deleted_since_it_was_planned(empty: LanceDataset) -> None:
    """Hence deletions are carried over by row id (rule C5)."""
    base = add(empty, numbers(1, 2), numbers(3))
    result = rewritten(base)
    made = place(hide(base, [1]), result)
    assert pairs(made) == [(0, 1), (1, 2), (2, 3)]
    assert pairs(hide(made, [1])) == [(0, 1), (2, 3)]


def test_a_rewrite_of_a_fragment_that_is_gone_is_refused(empty: LanceDataset) -> None:
    """Two rewrites of one fragment never both count."""
    base = add(empty, numbers(1, 2), numbers(3))
    first, second = rewritten(base), rewritten(base)
    with pytest.raises((OSError, RuntimeError), match="does not contain a fragment a rewrite operation wants"):
        place(place(base, first), second)


def test_a_rewrite_moves_rows_to_the_end_of_a_scan(empty: LanceDataset) -> None:
    """Fragments are in the order of their ids: the order of a scan is not the order of row ids."""
    base = add(empty, numbers(1), numbers(2))
    made = place(add(base, numbers(3)), rewritten(base))
    assert values(made) == [3, 1, 2]


def test_a_column_of_nulls_is_added_without_touching_files(empty: LanceDataset) -> None:
    """The files stay as they are, and so do the row ids."""
    head = add(empty, numbers(1, 2))
    wider = LanceSchema.from_pyarrow(head.schema.append(pa.field("b", pa.string())))
    made = commit(head, LanceOperation.Merge(metadata(head), wider))
    assert made.to_table().to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": None}]
    assert pairs(made) == pairs(head)


def test_a_schema_made_from_arrow_forgets_field_ids(tmp_path: Path) -> None:
    """Dropping a column that way reads another's bytes: fields are taken from the schema that the head has."""
    rows = pa.table({"a": [1, 2], "b": [3, 4], "c": [5, 6]})
    head = add(begin(tmp_path / "table", rows.schema), rows)
    without_b = head.schema.remove(1)
    wrong = commit(head, LanceOperation.Project(LanceSchema.from_pyarrow(without_b)))
    assert wrong.to_table()["c"].to_pylist() == [3, 4]
    make, (texts, a, _, c) = head.lance_schema.__reduce__()
    right = commit(head, LanceOperation.Project(make(texts, a, c)))
    assert right.to_table().to_pydict() == {"a": [1, 2], "c": [5, 6]}


def test_lance_never_cleans_up_by_itself_on_a_detached_commit(empty: LanceDataset) -> None:
    """Not even if told to; and what tells it can be taken out again."""
    cleaning = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}
    head = add(empty, numbers(1))
    told = commit(head, LanceOperation.UpdateConfig(LanceOperation.UpdateMap(cleaning)))
    assert told.config() == cleaning
    made = add(told, numbers(2))
    assert values(lance.dataset(head.uri, version=head.version)) == [1]
    strip = LanceOperation.UpdateMap(dict.fromkeys(cleaning))
    assert commit(made, LanceOperation.UpdateConfig(strip)).config() == {}
