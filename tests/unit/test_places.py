"""Where the row of each key is: the same as a dictionary, and earlier values stay as they were."""

from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.tail.places import Places

STEPS = st.lists(
    st.tuples(st.booleans(), st.sampled_from([1, 3, 300, 700]), st.integers(0, 900)), min_size=1, max_size=30
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_places_are_what_a_dictionary_would_be(steps: list[tuple[bool, int, int]]) -> None:
    """Few changes at a time and many, put and dropped, in any order."""
    places, model = Places(), dict[object, int]()
    kept = []
    for number, (puts, count, first) in enumerate(steps):
        kept.append((places, dict(model)))
        keys = list(range(first, first + count))
        if puts:
            places = places.put(keys, number * 1000)
            model.update(zip(keys, range(number * 1000, number * 1000 + count), strict=True))
        else:
            places = places.drop(keys)
            for key in keys:
                model.pop(key, None)
        assert places.found(keys) == [model[key] for key in keys if key in model]
    everything = range(1700)
    for before, expected in [*kept, (places, model)]:
        assert {key: before.get(key) for key in everything} == {key: expected.get(key) for key in everything}
