from __future__ import annotations

from pathlib import Path

import pytest

from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.checkpoint_shapes import check_checkpoint, check_shapes, checkpoint_shapes
from fetchly_llm.errors import WeightsMismatch
from tests.support.tiny_model import TINY_FAMILIES, make_tiny_model, tiny_weights


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_the_list_is_that_of_a_checkpoint(tmp_path: Path, family: str) -> None:
    shapes = checkpoint_shapes(read_model_config(make_tiny_model(tmp_path, family)))
    assert shapes == {name: value.shape for name, value in tiny_weights(family, 0, 320).items()}


def test_what_the_configuration_says_may_be_there_too(tmp_path: Path) -> None:
    shapes = checkpoint_shapes(read_model_config(make_tiny_model(tmp_path, "llama")))
    copies = {"lm_head.weight": (320, 64), "model.layers.0.self_attn.rotary_emb.inv_freq": (8,)}
    check_checkpoint("here", shapes, shapes | copies)
    with pytest.raises(WeightsMismatch, match=r"unexpected: model\.more") as caught:
        check_checkpoint("here", shapes, shapes | {"model.more": (1,)})
    assert "config.json" in (caught.value.hint or "")


def test_an_untied_head_is_needed(tmp_path: Path) -> None:
    shapes = checkpoint_shapes(read_model_config(make_tiny_model(tmp_path, "llama-untied")))
    found = {name: shape for name, shape in shapes.items() if name != "lm_head.weight"}
    with pytest.raises(WeightsMismatch, match=r"missing: lm_head\.weight"):
        check_checkpoint("here", shapes, found)
    with pytest.raises(WeightsMismatch, match=r"wrong shape: lm_head.weight is \(320, 63\), not \(320, 64\)"):
        check_checkpoint("here", shapes, found | {"lm_head.weight": (320, 63)})


def test_a_long_list_of_names_is_cut() -> None:
    expected = {f"name{number}": (1,) for number in range(11)}
    with pytest.raises(
        WeightsMismatch, match=r"^all is wrong: missing: name0, .* and 3 more; unexpected: x$"
    ) as caught:
        check_shapes("all is wrong", expected, {"x": (1,)}, hint="Do something.")
    assert caught.value.hint == "Do something."
