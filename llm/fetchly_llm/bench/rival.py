"""A GGUF file in; prompts prefilled and texts written by llama.cpp, with the time that it took, out.

llama-cpp-python is not among fetchly's dependencies; it is imported when a comparison asks for it. Its `generate` is
called and not `create_completion`, which is the same loop but spells out the whole text again after every token.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from fetchly_llm.bench.writing import Writing
from fetchly_llm.errors import RequestInvalid

RIVAL = "llama.cpp"
BATCH = 512
"""Tokens that llama.cpp computes together in a prompt: its own default."""


@dataclass(frozen=True, slots=True)
class RivalSettings:
    """How llama.cpp runs: `threads` while it writes, `prefill_threads` over a prompt. What is not here (keys and values
    in fp16, batches of 512) is its default."""

    context_length: int
    threads: int
    prefill_threads: int
    flash_attention: bool


def rival_library() -> Any:
    """llama-cpp-python, imported. Raises RequestInvalid where it is missing or does not load."""
    hint = "pip install 'fetchly[compare]' compiles it: a C++ compiler and some minutes"
    try:
        return importlib.import_module("llama_cpp")
    except ModuleNotFoundError as error:
        if error.name == "llama_cpp":
            raise RequestInvalid("llama-cpp-python is not installed", hint=hint) from None
        raise RequestInvalid(f"llama-cpp-python lacks {error.name}", hint=hint) from error
    except (ImportError, OSError, RuntimeError) as error:
        raise RequestInvalid(f"llama-cpp-python does not load: {error}", hint=hint) from error


class Rival:
    """One model in llama.cpp, one sequence at a time; its cache holds the last prompt, of which the next one reuses
    what both begin with.

    Every method raises RequestInvalid with llama.cpp's own words where it refuses.
    """

    def __init__(self, library: Any, gguf: Path, settings: RivalSettings) -> None:
        self._library = library
        self.settings = settings
        self._grammars: dict[str, Any] = {}
        with _worded():
            self._llama = library.Llama(
                str(gguf),
                n_ctx=settings.context_length,
                n_batch=BATCH,
                n_threads=settings.threads,
                n_threads_batch=settings.prefill_threads,
                flash_attn=settings.flash_attention,
                logits_all=False,
                verbose=False,
            )
            self._vocabulary = library.llama_model_get_vocab(self._llama.model)

    @property
    def version(self) -> str:
        """That of llama-cpp-python."""
        return str(self._library.__version__)

    def encode(self, text: str) -> list[int]:
        """The ids of a text as data, by llama.cpp's own tokenizer."""
        with _worded():
            return list(self._llama.tokenize(text.encode("utf-8", "replace"), add_bos=False, special=False))

    def prefill(self, prompt_ids: Sequence[int]) -> float:
        """Milliseconds to compute a prompt from an empty cache, which then holds it for the next `write`."""
        with _worded():
            start = perf_counter()
            self._llama.reset()
            self._llama.eval(list(prompt_ids))
            return _ms_since(start)

    def write(self, prompt_ids: Sequence[int], schema: Mapping[str, Any] | None, max_tokens: int) -> Writing:
        """Write greedily, under the grammar that the library makes of a JSON Schema (None: free text). What the cache
        holds of the prompt is reused; the grammar of a schema is made once, before the clock starts."""
        with _worded():
            grammar = self._grammar(schema) if schema is not None else None
            start = perf_counter()
            tokens: list[int] = []
            token_ms: list[float] = []
            is_complete = False
            for token in self._llama.generate(list(prompt_ids), temp=0.0, grammar=grammar):
                if self._library.llama_vocab_is_eog(self._vocabulary, token):
                    is_complete = True
                    break
                tokens.append(token)
                token_ms.append(_ms_since(start))
                if len(tokens) == max_tokens:
                    break
            text = self._llama.detokenize(tokens).decode("utf-8", "replace")
            return Writing(text, len(prompt_ids), tuple(token_ms), _ms_since(start), is_complete)

    def close(self) -> None:
        """Free the model."""
        self._llama.close()

    def _grammar(self, schema: Mapping[str, Any]) -> Any:
        key = json.dumps(schema)
        if key not in self._grammars:
            self._grammars[key] = self._library.LlamaGrammar.from_json_schema(key, verbose=False)
        return self._grammars[key]


@contextmanager
def _worded() -> Iterator[None]:
    try:
        yield
    except (ValueError, RuntimeError, KeyError, TypeError) as error:  # all that its loader, grammars and decoder raise
        raise RequestInvalid(f"{RIVAL}: {type(error).__name__}: {error}") from error


def _ms_since(start: float) -> float:
    return 1000.0 * (perf_counter() - start)
