"""Prepared examples survive their file; what is no such file is refused before anything is learnt from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from fetchly_llm.errors import RequestInvalid
from fetchly_llm.training.token_file import VERSION, TokenExample, TokenExamples, read_token_files, write_token_file

FACTS = {"version": VERSION, "model": "m", "format": "1", "names": '["a", "b"]', "sets": '["s", "s"]'}


def tensors(**changes: Any) -> dict[str, NDArray[Any]]:
    """Two sequences of five tokens, the last two of each to be learnt."""
    parts: dict[str, Any] = {"tokens": range(10), "lengths": [5, 5], "prompts": [3, 3]}
    parts |= {"chosen": [0, 0, 0, 1, 1] * 2, **changes}
    return {name: np.array(value, dtype=np.int32) for name, value in parts.items()}


def written(folder: Path, **changes: Any) -> Path:
    file = folder / "tokens.safetensors"
    save_file(tensors(**changes), file, FACTS)
    return file


def test_what_is_written_is_read(tmp_path: Path) -> None:
    found = read_token_files([written(tmp_path)])
    write_token_file(tmp_path / "again", found)
    again = read_token_files([tmp_path / "again"])
    assert [example.tokens.tolist() for example in again.examples] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert again.digest() == found.digest()


def test_a_name_of_any_characters_is_kept(tmp_path: Path) -> None:
    example = read_token_files([written(tmp_path)]).examples[0]
    named = TokenExample("\ud800é", "s", example.tokens, example.prompt, example.chosen)
    write_token_file(tmp_path / "named", TokenExamples("m", "1", (named,)))
    assert read_token_files([tmp_path / "named"]).examples[0].name == "\ud800é"


def test_the_digest_is_of_the_content_and_its_order(tmp_path: Path) -> None:
    found = read_token_files([written(tmp_path)])
    turned = TokenExamples(found.model, found.format, found.examples[::-1])
    other = read_token_files([written(tmp_path, chosen=[0, 0, 0, 1, 0] * 2)])
    longer = read_token_files([written(tmp_path, prompts=[2, 3])])
    assert len({each.digest() for each in (found, turned, other, longer)}) == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens": range(12), "chosen": [0, 0, 0, 1, 1] * 2 + [1, 1]},
        {"chosen": [0, 0, 0, 1, 1]},
        {"tokens": [[number] * 2 for number in range(10)]},
        {"lengths": [-5, 15], "prompts": [-9, 3]},
        {"lengths": [], "prompts": [], "tokens": [], "chosen": []},
        {"prompts": [5, 3]},
        {"prompts": [0, 3]},
        {"chosen": [0, 0, 0, 1, 1] + [0] * 5},
        {"chosen": [1, 0, 0, 1, 1] * 2},
    ],
)
def test_parts_that_do_not_fit(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(RequestInvalid, match="holds no prepared examples"):
        read_token_files([written(tmp_path, **changes)])
