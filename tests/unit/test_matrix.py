"""The compact table of vectors against the same arithmetic in float64."""

import numpy as np
import pytest

from casenotes.recall.matrix import CENTRE_PRIOR, VectorTable

CENTRING = 0.5


def unit_rows(count: int, dimensions: int = 48, seed: int = 1) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, dimensions)) + 0.3
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16).astype(np.float32)


def packed(row: np.ndarray) -> bytes:
    return row.astype("<f2").tobytes()


def filled(rows: np.ndarray, batch: int = 7) -> VectorTable:
    table = VectorTable(rows.shape[1])
    for start in range(0, len(rows), batch):
        part = range(start, min(start + batch, len(rows)))
        table.grow(part[-1] + 1)
        table.fill(list(part), [packed(rows[i]) for i in part])
    return table


def centred_by_definition(rows: np.ndarray, query: np.ndarray, weight: float) -> np.ndarray:
    exact = rows.astype(np.float64)
    centre = weight * exact.sum(axis=0) / (len(rows) + CENTRE_PRIOR)
    moved, asked = exact - centre, query.astype(np.float64) - centre
    return moved @ asked / (np.linalg.norm(moved, axis=1) * np.linalg.norm(asked))


@pytest.mark.parametrize("count", [1, 5, 700])
def test_similarities_are_those_of_the_definition(count: int) -> None:
    rows, query = unit_rows(count), unit_rows(1, seed=2)[0]
    table = filled(rows)
    for _ in range(2):  # the second time the products with the centre are remembered
        found = table.similarities(query, CENTRING)
        assert found.cosine == pytest.approx(rows @ query, abs=3e-5)
        assert found.centred == pytest.approx(centred_by_definition(rows, query, CENTRING), abs=1e-4)


def test_more_rows_than_a_block_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("casenotes.recall.matrix.BLOCK_BYTES", 48 * 4 * 10)
    rows, query = unit_rows(95), unit_rows(1, seed=2)[0]
    found = filled(rows).similarities(query, CENTRING)
    assert found.cosine == pytest.approx(rows @ query, abs=3e-5)
    assert found.centred == pytest.approx(centred_by_definition(rows, query, CENTRING), abs=1e-4)


def test_rows_shared_by_several_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("casenotes.recall.matrix.ROWS_FOR_A_CORE", 10)
    monkeypatch.setattr("casenotes.recall.matrix.usable_cores", lambda: 3)
    rows, query = unit_rows(95), unit_rows(1, seed=2)[0]
    found = filled(rows).similarities(query, CENTRING)
    assert found.cosine == pytest.approx(rows @ query, abs=3e-5)
    assert found.centred == pytest.approx(centred_by_definition(rows, query, CENTRING), abs=1e-4)


def test_without_centring_both_are_the_cosine() -> None:
    rows, query = unit_rows(9), unit_rows(1, seed=2)[0]
    found = filled(rows).similarities(query, 0)
    assert np.array_equal(found.cosine, found.centred)


def test_rows_without_vector_match_nothing_and_do_not_move_the_centre() -> None:
    rows, query = unit_rows(6), unit_rows(1, seed=2)[0]
    table = filled(rows)
    table.grow(9)
    table.exempt(8)
    assert table.missing == 2
    found = table.similarities(query, CENTRING)
    assert found.cosine[6:].tolist() == found.centred[6:].tolist() == [0, 0, 0]
    assert found.centred[:6] == pytest.approx(centred_by_definition(rows, query, CENTRING), abs=1e-4)
    nothing = table.similarities(None, CENTRING)
    assert nothing.cosine.tolist() == [0] * 9


def test_a_vector_that_changes_replaces_its_old_part_of_the_centre() -> None:
    rows, query = unit_rows(6), unit_rows(1, seed=2)[0]
    table = filled(rows)
    table.similarities(query, CENTRING)
    rows[2] = unit_rows(1, seed=9)[0]
    table.fill([2], [packed(rows[2])])
    found = table.similarities(query, CENTRING)
    assert found.centred == pytest.approx(centred_by_definition(rows, query, CENTRING), abs=1e-4)


def test_a_row_takes_two_bytes_a_dimension_and_a_scale() -> None:
    table = filled(unit_rows(16))
    assert table.nbytes == 16 * (2 * 48 + 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_a_damaged_vector_leaves_its_row_missing_and_the_rest_alone(bad: float) -> None:
    rows, query = unit_rows(6), unit_rows(1, seed=2)[0]
    table = filled(rows)
    table.grow(7)
    table.fill([6], [packed(np.full(48, bad))])
    assert (table.missing, table.missing_rows(), table.has(6)) == (1, [6], False)
    found = table.similarities(query, CENTRING)
    assert found.centred[:6] == pytest.approx(centred_by_definition(rows, query, CENTRING), abs=1e-4)
    table.fill([6], [packed(rows[0])])
    assert table.missing == 0
