import json
from pathlib import Path

import pytest

from fetchly_llm.cost_curve import CostCurve
from fetchly_llm.step_cost import ROWS, load_or_measure, measure
from tests.support.toy_backend import ToyBackend, ToyStreams, table_law

FILE = "step-costs.json"


def backend(streams: ToyStreams | None = None, **changes: int) -> ToyBackend:
    return ToyBackend(table_law(0), width=None, streams=streams, **changes)


def test_a_measured_curve_is_one() -> None:
    toy = backend()
    curve = measure(toy)
    assert curve.rows == ROWS
    assert all(cost > 0.0 for cost in curve.ms)
    assert list(curve.ms) == sorted(curve.ms)
    assert toy.steps == 6 * len(ROWS)
    assert curve.stream_ms == ()


@pytest.mark.parametrize("max_position", [1, 2, 40, 100_000])
def test_passes_of_streams_are_measured_where_there_are_some(max_position: int) -> None:
    toy = backend(ToyStreams(), max_position=max_position)
    curve = measure(toy)
    assert len(curve.stream_ms) == 3
    assert list(curve.stream_ms) == sorted(curve.stream_ms)
    assert toy.passes == 6 * 3


def test_a_model_that_gets_other_streams_is_measured_again(tmp_path: Path) -> None:
    plain = load_or_measure(backend(), tmp_path)
    for streams in (ToyStreams(), ToyStreams(count=4)):
        toy = backend(streams)
        assert load_or_measure(toy, tmp_path).stream_ms
        assert toy.passes > 0
        again = backend(streams)
        assert load_or_measure(again, tmp_path) != plain
        assert again.passes == 0
    assert load_or_measure(backend(), tmp_path) == plain


def test_a_model_of_few_positions_is_measured_within_them() -> None:
    assert measure(backend(max_position=40)).rows == ROWS


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    curve = load_or_measure(backend(), tmp_path)
    again = backend()
    assert load_or_measure(again, tmp_path) == curve
    assert again.steps == 0


def test_every_model_has_its_own_curve_and_keeps_it(tmp_path: Path) -> None:
    first = load_or_measure(backend(), tmp_path)
    other = backend(max_position=5000)
    second = load_or_measure(other, tmp_path)
    assert other.steps > 0
    assert load_or_measure(backend(), tmp_path) == first
    assert load_or_measure(backend(max_position=5000), tmp_path) == second
    assert len(json.loads((tmp_path / FILE).read_text())) == 2


BROKEN = {
    "empty": "",
    "half": '{"x": {"rows": [1, 2',
    "no-object": "[1, 2]",
    "null": "null",
    "no-entry": '{"KEY": 5}',
    "no-rows": '{"KEY": {"ms": [1.0]}}',
    "no-numbers": '{"KEY": {"rows": [1, 2], "ms": ["a", "b"], "stream_ms": []}}',
    "one-word": '{"KEY": {"rows": [1], "ms": ["a"], "stream_ms": []}}',
    "half-rows": '{"KEY": {"rows": [1, 2.5], "ms": [1.0, 2.0], "stream_ms": []}}',
    "falling": '{"KEY": {"rows": [1, 2], "ms": [2.0, 1.0], "stream_ms": []}}',
    "not-finite": '{"KEY": {"rows": [1, 2], "ms": [1.0, NaN], "stream_ms": []}}',
    "nothing": '{"KEY": {"rows": [], "ms": [], "stream_ms": []}}',
    "of-before": '{"KEY": {"rows": [1], "ms": [1.0]}}',
    "falling-streams": '{"KEY": {"rows": [1], "ms": [1.0], "stream_ms": [2.0, 1.0]}}',
    "no-streams": '{"KEY": {"rows": [1], "ms": [1.0], "stream_ms": null}}',
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_costs_a_measurement_and_is_mended(tmp_path: Path, text: str) -> None:
    load_or_measure(backend(), tmp_path)
    key = next(iter(json.loads((tmp_path / FILE).read_text())))
    (tmp_path / FILE).write_text(text.replace("KEY", key))
    toy = backend()
    curve = load_or_measure(toy, tmp_path)
    assert toy.steps > 0
    assert curve.rows == ROWS
    again = backend()
    assert load_or_measure(again, tmp_path) == curve
    assert again.steps == 0


def test_bytes_that_are_no_text_are_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"\xff\xfe\x00{")
    assert load_or_measure(backend(), tmp_path).rows == ROWS


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    file_instead = tmp_path / "file"
    file_instead.write_text("no folder")
    (tmp_path / "taken" / FILE).mkdir(parents=True)
    for folder in (file_instead, file_instead / "below", tmp_path / "taken"):
        toy = backend()
        assert isinstance(load_or_measure(toy, folder), CostCurve)
        assert toy.steps > 0
    assert [path.name for path in (tmp_path / "taken").iterdir()] == [FILE]  # nothing half written is left
