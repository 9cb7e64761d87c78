"""Vectors in memory: the nearest are those of comparing all of them exactly, whatever is in them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.tail.vectors import Vectors, distances

SIZE = 3
ODD = [0.0, -0.0, 1.0, 1.0000001, -1.0, 1e-30, 3e38, -3e38, 1e-45, float("inf"), float("nan"), 0.1]
values = st.sampled_from(ODD) | st.floats(-10, 10, width=32)
rows = st.lists(st.none() | st.lists(values, min_size=SIZE, max_size=SIZE), max_size=40)
finite = st.floats(-10, 10, width=32) | st.sampled_from([0.0, 1.0, 1e30, 1e-30, 1e-44])


def exactly(held: list[Any], query: Any, metric: str, mask: Any) -> list[float]:
    """The distances of all of them, sorted; those without one left out."""
    there = [row for row, wanted in zip(held, mask, strict=True) if wanted and row is not None]
    if not there:
        return []
    found = distances(np.asarray(there, dtype=np.float32).astype(np.float64), query, metric)
    return sorted(found[~np.isnan(found)].tolist())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=300, deadline=None)
@given(
    rows,
    st.lists(finite, min_size=SIZE, max_size=SIZE),
    st.sampled_from(["l2", "dot", "cosine"]),
    st.integers(1, 8),
    st.data(),
)
def test_the_nearest_are_those_of_comparing_all(
    held: list[Any], query: list[float], metric: str, k: int, data: Any
) -> None:
    """With nulls, zeros, values that nearly agree, and values too large to be squared; of all rows or of some."""
    mask = np.asarray(data.draw(st.lists(st.booleans(), min_size=len(held), max_size=len(held))), dtype=np.bool_)
    column = pa.chunked_array([pa.array(held, pa.list_(pa.float32(), SIZE))])
    asked = np.asarray(query, dtype=np.float32).astype(np.float64)
    vectors = Vectors(column)
    for only in (None, mask):
        places, found = vectors.nearest(asked, metric, k, only)
        wanted = exactly(held, asked, metric, np.ones(len(held)) if only is None else only)
        assert found.tolist() == wanted[:k]
        assert len(set(places.tolist())) == len(places)
        assert all(held[place] is not None and (only is None or only[place]) for place in places)


def test_those_that_cannot_be_told_do_not_hide_the_others() -> None:
    """A vector that is infinite has no cosine: the ones beside it have, left out of the mask or not."""
    held = [[0.0, 0.0, 0.0]] * 3 + [[0.0, 0.0, float("inf")], [0.0, 0.0, 1.0], [0.0, 0.0, float("inf")]]
    vectors = Vectors(pa.chunked_array([pa.array(held, pa.list_(pa.float32(), SIZE))]))
    with np.errstate(all="ignore"):
        for only in (None, np.arange(len(held)) == 4):
            places, found = vectors.nearest(np.asarray([0.0, 0.0, 1.0]), "cosine", 5, only)
            assert (places.tolist(), found.tolist()) == ([4], [0.0])


def test_few_are_compared_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten thousand, about as many as are asked for: that is what makes it quick."""
    chance = np.random.default_rng(7)
    matrix = chance.normal(size=(10_000, 128)).astype(np.float32)
    column = pa.chunked_array([pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), 128)])
    vectors = Vectors(column)
    compared: list[int] = []

    def counted(some: Any, query: Any, metric: str) -> Any:
        compared.append(len(some))
        return distances(some, query, metric)

    monkeypatch.setattr("phalanx.tail.vectors.distances", counted)
    for metric in ("l2", "dot", "cosine"):
        query = chance.normal(size=128)
        places, _ = vectors.nearest(query, metric, 10, None)
        assert places.tolist() == np.argsort(distances(matrix.astype(np.float64), query, metric))[:10].tolist()
    assert max(compared) < 30
