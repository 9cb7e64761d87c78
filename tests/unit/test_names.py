"""Names: what people may call a table, a namespace, a tag or a property, and what they may not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.errors import InvalidInputError
from phalanx.log import action as do
from phalanx.log.entry import Transaction, seal
from phalanx.names import parse_name, parse_word

LONGEST = "x" * 128
GOOD = [
    ("turns", ("turns",)),
    ("crm.turns", ("crm", "turns")),
    ("a", ("a",)),
    ("two words.with blanks inside", ("two words", "with blanks inside")),
    ("größe.顧客.клиент", ("größe", "顧客", "клиент")),
    ("🦄", ("🦄",)),
    ("-rf.$HOME.`id`;*?'\"", ("-rf", "$HOME", "`id`;*?'\"")),
    ("[bold].{x}.100%", ("[bold]", "{x}", "100%")),
    (LONGEST, (LONGEST,)),
    (".".join([LONGEST] * 16), (LONGEST,) * 16),
]
BAD_PARTS = [
    pytest.param("", id="empty"),
    pytest.param(" ", id="a blank"),
    pytest.param(" x", id="a blank before"),
    pytest.param("x ", id="a blank behind"),
    pytest.param("x\u00a0", id="a no-break space behind"),
    pytest.param("\u3000x", id="an ideographic space before"),
    pytest.param("/", id="a slash"),
    pytest.param("a/b", id="a path"),
    pytest.param("..\\x", id="a backslash"),
    pytest.param("x\n", id="a line end behind"),
    pytest.param("a\nb", id="a line end inside"),
    pytest.param("a\tb", id="a tab"),
    pytest.param("a\0b", id="a zero"),
    pytest.param("a\x1b[31mb", id="a terminal escape"),
    pytest.param("a\x7fb", id="a delete"),
    pytest.param("a\x85b", id="a next line"),
    pytest.param("a\x9bb", id="an eight-bit escape"),
    pytest.param("a\u2028b", id="a line separator"),
    pytest.param("a\u2029b", id="a paragraph separator"),
    pytest.param("\udcff", id="a byte that is not UTF-8"),
    pytest.param("x" * 129, id="129 characters"),
]
BAD_DOTS = ["..", "../", "../x", "x/../y", ".", ".x", "x.", "a..b", "a. .b", "..a"]


@pytest.mark.parametrize(("text", "parts"), GOOD)
def test_a_good_name_is_its_parts(text: str, parts: tuple[str, ...]) -> None:
    """Dots join parts, and nothing else is special."""
    assert parse_name(text) == parts
    assert parse_name(list(parts)) == parts


@pytest.mark.parametrize("part", BAD_PARTS)
def test_a_bad_part_is_refused_wherever_it_stands(part: str) -> None:
    """Alone, first, last, in a list and in a word."""
    for name in (part, f"{part}.a", f"a.{part}", f"a.{part}.b", [part], ["a", part]):
        with pytest.raises(InvalidInputError):
            parse_name(name)
    for word in (part, f"{part}.a", f"a.{part}"):
        with pytest.raises(InvalidInputError):
            parse_word(word, "tag")


@pytest.mark.parametrize("name", BAD_DOTS)
def test_dots_never_climb_and_never_leave_an_empty_part(name: str) -> None:
    """Nothing that looks like a path out of the lake is a name."""
    with pytest.raises(InvalidInputError):
        parse_name(name)
    with pytest.raises(InvalidInputError):
        parse_word(name, "tag")


def test_a_dot_inside_a_listed_part_is_refused() -> None:
    """Otherwise two different tables would be shown under one name."""
    with pytest.raises(InvalidInputError):
        parse_name(["crm.turns"])


def test_a_name_has_between_one_and_sixteen_parts() -> None:
    """The limit of the log is the limit of names."""
    assert len(parse_name(["x"] * do.MAX_PARTS)) == do.MAX_PARTS
    for parts in ([], ["x"] * (do.MAX_PARTS + 1)):
        with pytest.raises(InvalidInputError):
            parse_name(parts)


def test_a_refusal_says_what_was_refused_and_what_is_allowed() -> None:
    """One line, with the name as a program would write it, so that nothing in it can reach the terminal."""
    with pytest.raises(InvalidInputError, match="cannot be the name of a namespace: use parts of 1 to 128") as caught:
        parse_name("a\x1b[2Jb\n", "namespace")
    assert str(caught.value).isprintable()


@given(st.text(max_size=140))
def test_whatever_is_accepted_round_trips(text: str) -> None:
    """Joined by dots and parsed again, a name is the same name, and the log can hold it."""
    try:
        parts = parse_name(text)
    except InvalidInputError:
        return
    assert ".".join(parts) == text
    assert parse_name(parts) == parts
    assert parse_word(text, "property") == text
    sealed = seal(Transaction(b"1" * 16, "", (do.CreateNamespace(parts, {}),)))
    assert sealed.transaction.actions == (do.CreateNamespace(parts, {}),)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=6), max_size=20))
def test_a_list_of_parts_is_accepted_exactly_if_its_joined_text_is_the_same_name(parts: list[str]) -> None:
    """The two ways to write a name agree on every input."""
    joined = ".".join(parts)
    try:
        same = parse_name(joined) == tuple(parts)
    except InvalidInputError:
        same = False
    if same:
        assert parse_name(parts) == tuple(parts)
    else:
        with pytest.raises(InvalidInputError):
            parse_name(parts)
