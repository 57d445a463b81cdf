"""Nothing in; something that can be called as the part of llama-cpp-python that comparisons call, without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

END = 2

Script = Callable[[list[int], "Grammar | None"], list[int]]


@dataclass
class Grammar:
    """Keeps the schema that it was made of."""

    schema: str

    @classmethod
    def from_json_schema(cls, json_schema: str, verbose: bool = True) -> Grammar:
        if '"refused"' in json_schema:
            raise ValueError("no such grammar")
        return cls(json_schema)


@dataclass
class LlamaStandIn:
    """The module. `script` writes token ids for a prompt and a grammar; `encode` and `spell` are its tokenizer. What
    its models were asked stands in `calls`, how they were made in `made`."""

    script: Script
    encode: Callable[[str], list[int]]
    spell: Callable[[Sequence[int]], bytes]
    calls: list[Any] = field(default_factory=list)
    made: list[dict[str, Any]] = field(default_factory=list)
    open_models: int = 0
    __version__: str = "0.0.0"
    LlamaGrammar: type[Grammar] = Grammar

    def Llama(self, model_path: str, **settings: Any) -> Model:
        self.made.append({"model_path": model_path, **settings})
        self.open_models += 1
        return Model(self, int(settings["n_ctx"]))

    def llama_model_get_vocab(self, model: object) -> str:
        assert model == "model"
        return "vocabulary"

    def llama_vocab_is_eog(self, vocabulary: str, token: int) -> bool:
        assert vocabulary == "vocabulary"
        return token == END


class Model:
    """A model whose cache is a list of tokens. An end follows what the script writes, if it is not endless."""

    model = "model"

    def __init__(self, library: LlamaStandIn, context: int) -> None:
        self._library = library
        self._context = context
        self._cache: list[int] = []

    def reset(self) -> None:
        self._cache = []

    def eval(self, tokens: Sequence[int]) -> None:
        self._library.calls.append(("eval", len(self._cache), tuple(tokens)))
        if len(self._cache) + len(tokens) > self._context:
            raise RuntimeError("llama_decode returned 1")
        self._cache += tokens

    def generate(self, tokens: Sequence[int], *, temp: float, grammar: Grammar | None) -> Iterator[int]:
        assert temp == 0.0
        held = 0
        while held < min(len(self._cache), len(tokens) - 1) and self._cache[held] == tokens[held]:
            held += 1
        self._library.calls.append(("generate", held, tuple(tokens)))
        if len(tokens) > self._context:
            raise RuntimeError("llama_decode returned 1")
        self._cache = list(tokens)
        yield from self._library.script(list(tokens), grammar)
        yield END

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        assert not add_bos
        assert not special
        return self._library.encode(text.decode())

    def detokenize(self, tokens: Sequence[int]) -> bytes:
        return self._library.spell(tokens)

    def close(self) -> None:
        self._library.open_models -= 1
