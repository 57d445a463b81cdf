from pathlib import Path

import pytest

from fetchly_llm.backends.registry import load_backend
from fetchly_llm.bench.step import measure_steps
from fetchly_llm.config import EngineConfig
from fetchly_llm.errors import RequestInvalid
from tests.support.tiny_model import make_tiny_model

# As docs/bench.md has them, and programs that read the lines.
KEYS = [
    "bench", "backend", "rows", "context", "ms", "ratio_to_one_row", "bandwidth_gb_s", "limit_ms", "ratio_to_limit",
    "prefill_tokens_per_s", "threads",
]  # fmt: skip


def test_a_row_for_each_number_of_rows_beside_the_limit(tmp_path: Path) -> None:
    config = EngineConfig(device="cpu", threads=1, width=4, prefill_chunk=16)
    backend = load_backend(make_tiny_model(tmp_path), config)
    rows = measure_steps(backend, context=40, rows=(4, 2), rounds=2)
    assert [row.rows for row in rows] == [1, 2, 4]
    assert rows[0].ratio_to_one_row == 1.0
    # One byte a parameter, and two for each key and value of 2 layers, 2 heads of 16 numbers, 40 positions.
    read = backend.parameters + 2 * (2 * 2 * 2 * 16 * 40)
    for row in rows:
        assert list(row.line()) == KEYS
        assert row.limit_ms == pytest.approx(1000.0 * read / (row.bandwidth_gb_s * 1e9))
        assert row.ratio_to_limit == pytest.approx(row.ms / row.limit_ms)
        assert (row.bench, row.context, row.threads, row.backend) == ("step", 40, 1, backend.identity)


@pytest.mark.parametrize("rows", [(5,), (0,), (1, 99)])
def test_rows_that_a_step_cannot_have_are_refused(tmp_path: Path, rows: tuple[int, ...]) -> None:
    config = EngineConfig(device="cpu", threads=1, width=4, prefill_chunk=16)
    with pytest.raises(RequestInvalid, match="from 1 to 4"):
        measure_steps(load_backend(make_tiny_model(tmp_path), config), context=40, rows=rows)
