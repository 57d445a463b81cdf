"""llama.cpp as a rival: a stand-in for its library shows what is asked of it, and the real one that it can be asked."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fetchly_llm.bench import rival as rival_module
from fetchly_llm.bench.rival import Rival, RivalSettings, rival_library
from fetchly_llm.errors import RequestInvalid
from tests.support.llama_stand_in import Grammar, LlamaStandIn
from tests.support.tiny_gguf import TinyModel

SETTINGS = RivalSettings(context_length=64, threads=2, prefill_threads=3, flash_attention=True)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"kind": {"enum": ["teapot", "teacup"]}},
    "required": ["kind"],
    "additionalProperties": False,
}


def letters(text: str) -> list[int]:
    return [100 + ord(letter) for letter in text]


def spelt(tokens: Sequence[int]) -> bytes:
    return bytes(token - 100 for token in tokens)


def yes(prompt: list[int], grammar: Grammar | None) -> list[int]:
    return letters("yes" if grammar is None else '{"a": 1}')


@pytest.fixture
def library() -> LlamaStandIn:
    return LlamaStandIn(yes, letters, spelt)


def test_a_text_has_a_time_for_each_token_and_ends_where_the_model_ends_it(library: LlamaStandIn) -> None:
    writing = Rival(library, Path("m.gguf"), SETTINGS).write([5, 6], None, 10)
    assert (writing.text, writing.is_complete, writing.prompt_tokens) == ("yes", True, 2)
    assert len(writing.token_ms) == 3
    assert 0.0 < writing.token_ms[0] <= writing.token_ms[1] <= writing.token_ms[2] <= writing.total_ms
    assert writing.decode_ms(3) == writing.token_ms[2] - writing.token_ms[0]


def test_a_text_is_cut_at_the_limit(library: LlamaStandIn) -> None:
    writing = Rival(library, Path("m.gguf"), SETTINGS).write([5, 6], None, 2)
    assert (writing.text, writing.is_complete, len(writing.token_ms)) == ("ye", False, 2)


def test_the_settings_reach_the_library(library: LlamaStandIn) -> None:
    Rival(library, Path("m.gguf"), SETTINGS).close()
    (made,) = library.made
    assert made == {
        "model_path": "m.gguf",
        "n_ctx": 64,
        "n_batch": 512,
        "n_threads": 2,
        "n_threads_batch": 3,
        "flash_attn": True,
        "logits_all": False,
        "verbose": False,
    }
    assert library.open_models == 0


def test_a_prompt_is_computed_from_an_empty_cache_and_then_reused(library: LlamaStandIn) -> None:
    rival = Rival(library, Path("m.gguf"), SETTINGS)
    rival.prefill([1, 2, 3])
    assert rival.prefill([1, 2, 4]) > 0.0
    rival.write([1, 2, 4, 5], None, 9)
    assert library.calls == [("eval", 0, (1, 2, 3)), ("eval", 0, (1, 2, 4)), ("generate", 3, (1, 2, 4, 5))]


def test_a_schema_becomes_a_grammar_once(library: LlamaStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(json_schema: str, verbose: bool = True) -> Grammar:
        made.append(json_schema)
        return Grammar(json_schema)

    monkeypatch.setattr(library, "LlamaGrammar", type("Counted", (), {"from_json_schema": staticmethod(counted)}))
    rival = Rival(library, Path("m.gguf"), SETTINGS)
    assert rival.write([5], SCHEMA, 99).text == rival.write([5], dict(SCHEMA), 99).text == '{"a": 1}'
    assert [json.loads(schema) for schema in made] == [SCHEMA]


def test_what_the_library_refuses_is_said_in_its_words(library: LlamaStandIn) -> None:
    rival = Rival(library, Path("m.gguf"), SETTINGS)
    with pytest.raises(RequestInvalid, match=r"llama\.cpp: RuntimeError: llama_decode returned 1"):
        rival.prefill(range(65))
    with pytest.raises(RequestInvalid, match=r"llama\.cpp: ValueError: no such grammar"):
        rival.write([5], {"title": "refused"}, 9)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModuleNotFoundError("gone", name="llama_cpp"), "llama-cpp-python is not installed"),
        (ModuleNotFoundError("gone", name="diskcache"), "lacks diskcache"),
        (RuntimeError("Failed to load shared library"), "does not load: Failed to load"),
    ],
)
def test_a_missing_library_is_named_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def missing(name: str) -> Any:
        assert name == "llama_cpp"
        raise error

    monkeypatch.setattr(rival_module.importlib, "import_module", missing)
    with pytest.raises(RequestInvalid, match=words) as raised:
        rival_library()
    assert raised.value.hint is not None
    assert "fetchly[compare]" in raised.value.hint


@pytest.mark.filterwarnings("default")  # the library leaves files open
def test_the_real_library_does_what_the_stand_in_pretends(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed: pip install 'fetchly[compare]'")
    file = TinyModel().write(tmp_path / "tiny.gguf")
    rival = Rival(rival_library(), file, RivalSettings(256, 1, 1, flash_attention=False))
    try:
        prompt = rival.encode("hello world, as JSON: ")
        assert rival.prefill(prompt[:4]) > 0.0
        free, again = rival.write(prompt, None, 12), rival.write(prompt, None, 12)
        assert len(free.token_ms) == len(again.token_ms) <= 12
        assert free.text == again.text
        record = rival.write(prompt, SCHEMA, 99)
        assert json.loads(record.text)["kind"] in ("teapot", "teacup")
        assert record.is_complete
        assert not rival.write(prompt, SCHEMA, 3).is_complete
        with pytest.raises(RequestInvalid, match="RuntimeError"):
            rival.prefill([5] * 300)
    finally:
        rival.close()
