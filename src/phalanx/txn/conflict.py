"""The judge: may this transaction land on this state? One table, one pure function.

Every action names what it expects to find, so the state decides. `RULES` reads as documentation: for each kind of
action, what stands in its way, in the order in which it is looked for; an action with no rule that objects goes ahead.
Which exception a caller sees, and what becomes of the rest of a batch, is left to `commit.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from phalanx.catalog import Name, State, apply, within
from phalanx.claims import rival
from phalanx.contents import cover_is_void, flush_is_void, rewrite_is_void, since
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.entry import Landing, Transaction
from phalanx.schema import decode_schema
from phalanx.txn import kept
from phalanx.txn.verdict import GO, Already, Conflict, Kind, Rule, Verdict, dotted


def _parent_missing(field: str) -> Rule:
    def rule(state: State, action: Any, position: int) -> Conflict | None:  # noqa: ANN401 - any action with that field
        parent: Name = getattr(action, field)[:-1]
        if not parent or parent in state.namespaces:
            return None
        return Conflict(Kind.MISSING, f"namespace {dotted(parent)!r} does not exist: create it first")

    return rule


def _name_taken(field: str) -> Rule:
    def rule(state: State, action: Any, position: int) -> Conflict | None:  # noqa: ANN401 - any action with that field
        name: Name = getattr(action, field)
        for what, held in (("table", state.tables.get(name)), ("namespace", state.namespaces.get(name))):
            if held is not None:
                text = f"{what} {dotted(name)!r} exists already, since version {held.created}"
                return Conflict(Kind.EXISTS, text, held.created)
        return None

    return rule


def _namespace_missing(state: State, action: do.AlterNamespace | do.DropNamespace, position: int) -> Conflict | None:
    if action.name in state.namespaces:
        return None
    return Conflict(Kind.MISSING, f"namespace {dotted(action.name)!r} does not exist")


def _namespace_in_use(state: State, action: do.DropNamespace, position: int) -> Conflict | None:
    namespaces, tables = within(state, action.name)
    if not namespaces and not tables:
        return None
    text = (
        f"namespace {dotted(action.name)!r} is not empty: {dotted((namespaces + tables)[0])} is in it; drop that first"
    )
    return Conflict(Kind.NOT_EMPTY, text)


def _table_missing(
    state: State, action: do.DropTable | do.DeregisterTable | do.RenameTable, position: int
) -> Conflict | None:
    if action.name in state.tables:
        return None
    return Conflict(Kind.MISSING, f"table {dotted(action.name)!r} does not exist, or does no longer")


def _table_replaced(
    state: State, action: do.DropTable | do.DeregisterTable | do.RenameTable, position: int
) -> Conflict | None:
    held = state.tables[action.name]
    if held.id == action.table:
        return None
    text = f"table {dotted(action.name)!r} is another one by now: it was dropped, and created anew at {held.created}"
    return Conflict(Kind.CHANGED, text, held.created)


def _incarnation_taken(state: State, action: do.CreateTable | do.ReviveTable, position: int) -> Conflict | None:
    name = state.names.get(action.table)
    if name is None:
        return None
    created = state.tables[name].created
    return Conflict(Kind.EXISTS, f"incarnation {action.table} is a table already: {dotted(name)}", created)


def _table_gone(state: State, action: it.Item | it.Upkeep | it.Indexing | it.Other, position: int) -> Conflict | None:
    if action.table in state.contents:
        return None
    return Conflict(Kind.MISSING, "the table does no longer exist: it was dropped since this change was begun")


def _columns_changed(state: State, action: it.Rowwise, position: int) -> Conflict | None:
    """Rows of an earlier layout are converted as those that were there; but no value is dropped without being told."""
    contents = state.contents[action.table]
    if isinstance(action, it.DeleteRows) or action.layout == contents.layout.id:
        return None
    newer = since(contents, action.layout)
    named = isinstance(action, it.DeleteWhere | it.UpdateWhere)
    if newer is not None and not named:
        staged = isinstance(getattr(action, "rows", None), it.Staged)
        steps = [step for one in newer for step in one.steps]
        strict = any(isinstance(step, it.SetNullable) and not step.nullable for step in steps)
        opaque = any(not one.steps for one in newer)
        lossy = any(isinstance(step, it.DropColumn) for step in steps) and not staged
        keys_only = isinstance(action, it.DeleteKeys)  # parts of a key are renamed, and nothing else
        if not opaque and (keys_only or not (strict or lossy)):
            return None
    name = dotted(state.names[action.table])
    return Conflict(Kind.REPLAN, f"the columns of table {name!r} have changed since this change was begun")


def _altered_meanwhile(state: State, action: it.Alter, position: int) -> Conflict | None:
    if action.base == state.contents[action.table].layout.id:
        return None
    name = dotted(state.names[action.table])
    return Conflict(Kind.REPLAN, f"the columns of table {name!r} were changed by somebody else")


def _version_taken(state: State, action: it.Advance, position: int) -> Conflict | None:
    contents = state.contents[action.table]
    if action.version == contents.version + 1:
        return None
    name = dotted(state.names[action.table])
    text = f"table {name!r} is at version {contents.version}, and version {action.version} cannot be the next"
    return Conflict(Kind.EXISTS if action.version <= contents.version else Kind.MISSING, text, contents.changed)


def _flush_void(state: State, action: it.Flush, position: int) -> Conflict | None:
    contents = state.contents[action.table]
    if not flush_is_void(contents, action):
        return None
    return Conflict(Kind.VOID, "the items this flush wrote out are no longer the first of the tail", contents.moved)


def _rewrite_void(state: State, action: it.Rewrite, position: int) -> Conflict | None:
    contents = state.contents[action.table]
    if not rewrite_is_void(contents, action):
        return None
    return Conflict(Kind.VOID, "the head this rewrite was staged on is no longer the table's", contents.moved)


def _cover_void(state: State, action: it.Cover, position: int) -> Conflict | None:
    contents = state.contents[action.table]
    if not cover_is_void(contents, action):
        return None
    return Conflict(Kind.VOID, "the head these indexes were announced on is no longer the table's", contents.moved)


def _claim_void(state: State, action: it.Claim, position: int) -> Conflict | None:
    contents = state.contents[action.table]
    other = rival(contents.claims, action)
    if contents.generation != action.generation:
        return Conflict(Kind.VOID, "the fragments it claims are no longer the table's", contents.moved)
    if other is not None:
        return Conflict(Kind.VOID, f"{other.by} is about to rewrite these fragments", other.position)
    return None


def _index_taken(state: State, action: it.DeclareIndex, position: int) -> Conflict | None:
    if all(index.name != action.name for index in state.contents[action.table].indexes):
        return None
    return Conflict(Kind.EXISTS, f"index {action.name!r} exists already")


def _column_gone(state: State, action: it.DeclareIndex, position: int) -> Conflict | None:
    there = decode_schema(state.contents[action.table].layout.schema).names
    if not there or action.column in there:
        return None
    text = f"there is no column {action.column!r} any more; there is: {', '.join(there)}"
    return Conflict(Kind.REPLAN, text)


def _index_missing(state: State, action: it.DropIndex, position: int) -> Conflict | None:
    held = state.contents[action.table].indexes
    if any(index.name == action.name for index in held):
        return None
    there = ", ".join(index.name for index in held) or "none"
    return Conflict(Kind.MISSING, f"index {action.name!r} does not exist; there is: {there}")


def _tag_ahead(state: State, action: do.PutTag, position: int) -> Conflict | None:
    if action.position <= position:
        return None
    return Conflict(Kind.MISSING, f"there is no version {action.position} to tag: the lake is at {position - 1}")


def _tag_taken(state: State, action: do.PutTag, position: int) -> Already | Conflict | None:
    held = state.tags.get(action.name)
    if held is None or (action.move and held.position != action.position):
        return None
    if held.position == action.position:
        return Already(held.made)
    text = f"tag {action.name!r} names version {held.position} already: choose another name, or move it"
    return Conflict(Kind.EXISTS, text, held.made)


def _tag_missing(state: State, action: do.Untag, position: int) -> Conflict | None:
    if action.name in state.tags:
        return None
    return Conflict(Kind.MISSING, f"tag {action.name!r} does not exist")


def _progress_behind(state: State, action: do.Progress, position: int) -> Conflict | None:
    held = state.progress.get(action.source)
    if (held.number if held is not None else None) == action.expected:
        return None
    found = f"at {held.number} (version {held.made})" if held is not None else "not known"
    expected = "to be new" if action.expected is None else f"at {action.expected}"
    text = f"source {action.source!r} is {found}, and this change expects it {expected}"
    return Conflict(Kind.BEHIND, text, held.made if held is not None else None)


def _founded(state: State, action: do.Found, position: int) -> Conflict | None:
    return Conflict(Kind.EXISTS, "the lake exists already", 1) if state.founded else None


RULES: Mapping[type, tuple[Rule, ...]] = {
    do.Found: (_founded,),
    do.CreateNamespace: (_name_taken("name"), _parent_missing("name")),
    do.AlterNamespace: (_namespace_missing,),
    do.DropNamespace: (_namespace_missing, _namespace_in_use),
    do.CreateTable: (_name_taken("name"), _parent_missing("name"), _incarnation_taken),
    do.DropTable: (_table_missing, _table_replaced),
    do.DeregisterTable: (_table_missing, _table_replaced),
    do.ReviveTable: (_name_taken("name"), _parent_missing("name"), _incarnation_taken, kept.revival_pruned),
    do.RenameTable: (_table_missing, _table_replaced, _name_taken("to"), _parent_missing("to")),
    do.PutTag: (_tag_ahead, _tag_taken, kept.tag_expired),
    do.Untag: (_tag_missing,),
    do.SetProperty: (),
    do.Progress: (_progress_behind,),
    do.Prune: (kept.pruned_by_itself, kept.prune_too_far, kept.prune_overtaken, kept.prune_needed),
    **dict.fromkeys(get_args(it.Rowwise), (_table_gone, _columns_changed)),
    it.Alter: (_table_gone, _altered_meanwhile),
    it.Restore: (_table_gone, kept.source_expired),
    it.Advance: (_table_gone, _version_taken),
    it.DeleteVersions: (_table_gone, kept.version_needed),
    it.Flush: (_table_gone, _flush_void),
    it.Rewrite: (_table_gone, _rewrite_void),
    it.Cover: (_table_gone, _cover_void),
    it.Claim: (_table_gone, _claim_void),
    it.DeclareIndex: (_table_gone, _index_taken, _column_gone),
    it.DropIndex: (_table_gone, _index_missing),
}


def judge_action(state: State, action: do.Action, position: int) -> Already | Conflict | None:
    """The first objection to one action, if there is any."""
    for rule in RULES[type(action)]:
        objection = rule(state, action, position)
        if objection is not None:
            return objection
    return None


def _reached_before(actions: Sequence[do.Action], state: State) -> Already | None:
    """Whether every source that these actions move is where they would bring it."""
    wanted = {action.source: action.new for action in actions if isinstance(action, do.Progress)}
    held = [state.progress.get(source) for source in wanted]
    made = [mark.made for mark, new in zip(held, wanted.values(), strict=True) if mark and mark.number == new]
    return Already(max(made)) if len(made) == len(wanted) else None


def judge(transaction: Transaction, state: State, landing: Landing) -> tuple[Verdict, State]:
    """Whether the transaction may land on this state, there, and the state after it.

    Numbers that its sources have reached before settle the whole transaction: the numbered work is what it is for, and
    what else it carries was done with it (rule B7). Otherwise actions are judged one after the other, each on the
    state that the earlier ones leave.
    """
    actions = transaction.actions
    gone = kept.let_go(transaction, state)
    if gone is not None:
        return gone, state
    if any(type(action) is do.Progress for action in actions):
        done = _reached_before(actions, state)
        if done is not None:
            return done, state
    after = state
    for action in actions:
        objection = judge_action(after, action, landing.position)
        if isinstance(objection, Conflict) or (objection is not None and len(actions) == 1):
            return objection, state
        after = apply(after, landing, action)
    return GO, after
