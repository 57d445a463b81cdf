from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file

from fetchly_llm.errors import WeightsMismatch
from fetchly_llm.safetensors_file import Kind, TensorSource, add_metadata, read_metadata, widened, write_tensors

KINDS: dict[Kind, torch.dtype] = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
BITS = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40)


def written(folder: Path, values: np.ndarray, kind: Kind) -> torch.Tensor:
    write_tensors(folder / "t.safetensors", [TensorSource("t", values.shape, [values[:1], values[1:]])], kind=kind)
    return load_file(folder / "t.safetensors")["t"]


@pytest.mark.parametrize("kind", KINDS)
@given(bits=BITS)
def test_numbers_are_rounded_as_torch_rounds_them(
    tmp_path_factory: pytest.TempPathFactory, kind: Kind, bits: list[int]
) -> None:
    values = np.array(bits, dtype=np.uint32).view(np.float32)
    values = values[torch.from_numpy(values).to(KINDS[kind]).isfinite().numpy()]
    assume(values.size)
    found = written(tmp_path_factory.mktemp("rounding"), values, kind)
    expected = torch.from_numpy(values).to(KINDS[kind])
    assert found.dtype == KINDS[kind]
    assert torch.equal(found.view(torch.uint8), expected.view(torch.uint8))  # a negative zero is one
    wide = widened(found.view(torch.uint8).numpy().tobytes(), kind, values.shape)
    assert np.array_equal(wide.view(np.uint32), expected.float().numpy().view(np.uint32))


def test_what_lies_half_way_goes_to_the_even_one(tmp_path: Path) -> None:
    ulp = 2.0**-7
    values = np.array([1 + ulp / 2, 1 + ulp * 3 / 2, -1 - ulp / 2], dtype=np.float32)
    assert written(tmp_path, values, "BF16").tolist() == [1.0, 1 + 2 * ulp, -1.0]


def test_names_shapes_and_metadata(tmp_path: Path) -> None:
    file = tmp_path / "t.safetensors"
    tensors = [
        TensorSource("b", (2, 3), [np.arange(6, dtype=np.float32).reshape(2, 3)]),
        TensorSource("a", (1,), [np.ones(1, dtype=np.float32)]),
    ]
    write_tensors(file, tensors, kind="F16", metadata={"of": "a test"})
    with safe_open(file, framework="numpy") as stored:
        assert stored.metadata() == {"of": "a test"}
        assert stored.get_tensor("b").tolist() == [[0, 1, 2], [3, 4, 5]]
        assert stored.get_tensor("a").dtype == np.float16
    write_tensors(file, tensors)
    with safe_open(file, framework="numpy") as stored:
        assert stored.metadata() == {"format": "pt"}  # without which transformers refuses the file
        assert stored.get_tensor("b").dtype == np.float32


def test_metadata_is_added_and_the_tensors_stay(tmp_path: Path) -> None:
    file = tmp_path / "t.safetensors"
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    write_tensors(file, [TensorSource("t", values.shape, [values])], kind="BF16", metadata={"of": "a test", "n": "1"})
    for note in ("2", "2" * 1000):
        add_metadata(file, {"n": note, "more": "ä"})
        assert read_metadata(file) == {"of": "a test", "n": note, "more": "ä"}
        assert torch.equal(load_file(file)["t"].float(), torch.from_numpy(values))
    assert [path.name for path in tmp_path.iterdir()] == ["t.safetensors"]
    (tmp_path / "other").write_bytes(b"no such file")
    with pytest.raises(WeightsMismatch):
        add_metadata(tmp_path / "other", {"n": "1"})
    assert (tmp_path / "other").read_bytes() == b"no such file"
