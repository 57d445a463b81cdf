"""Lines of examples.jsonl in, examples in tokens out: each answer walked through the grammar that will enforce it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.errors import EngineError, RequestInvalid
from fetchly_llm.grammar.compiler import GrammarCompiler
from fetchly_llm.grammar.prepare import prepare
from fetchly_llm.tokenizer import Tokenizer
from fetchly_llm.training.answer_path import answer_path
from fetchly_llm.training.example_lines import ExampleLine, read_examples
from fetchly_llm.training.token_file import TokenExample, TokenExamples


@dataclass(slots=True)
class PreparationTally:
    """`dropped` counts, by reason, the examples that could not be prepared."""

    tokens: int = 0
    choices: int = 0
    sets: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)

    def summary(self) -> dict[str, Any]:
        """All figures, for one JSON line."""
        return {
            "examples": self.sets.total(),
            "tokens": self.tokens,
            "choices": self.choices,
            "sets": dict(self.sets.most_common()),
            "dropped": dict(self.dropped.most_common()),
        }


class Preparation:
    """Prepares the examples of one model. `digest` tells the model in whose tokens prompts must be written; `take`
    bounds the examples of a set: the first in the order of a hash of their names."""

    def __init__(self, folder: Path, digest: str, take: Mapping[str, int]) -> None:
        self.tally = PreparationTally()
        self._take = take
        self._digest = digest
        self._tokenizer = Tokenizer.load(folder)
        config = read_model_config(folder)
        ends = sorted({*config.eos_token_ids, *self._tokenizer.eos_token_ids})
        self._eos = config.eos_token_ids[0] if config.eos_token_ids else ends[0]
        self._longest = config.max_position
        self._vocab_size = config.vocab_size
        self._grammars = GrammarCompiler(self._tokenizer.json_text, ends, config.vocab_size)

    def run(self, files: Iterable[Path], on_line: Callable[[str], None] = lambda name: None) -> TokenExamples:
        """Every example of the files that its own grammar can write; the others are counted.

        Raises RequestInvalid, with file and line, for a line that is no example, for one of another model or format
        than the first, and where nothing is left.
        """
        lines = read_examples(files, self._digest, self._take)
        examples: list[TokenExample] = []
        for line in lines:
            on_line(line.name)
            example = self._prepared(line)
            if example is not None:
                examples.append(example)
        if not examples:
            raise RequestInvalid(f"no example could be prepared: {dict(self.tally.dropped.most_common(3))}")
        return TokenExamples(self._digest, lines[0].format, tuple(examples))

    def _prepared(self, line: ExampleLine) -> TokenExample | None:
        prompt = line.prompt(self._vocab_size)
        schema, source, answer = line.schema, line.source, line.answer
        try:
            prepared = prepare(schema, mode="check")
            grammar = self._grammars.compile(prepared.enforced, source, allowed_escapes=prepared.allowed_escapes)
            path = answer_path(grammar, self._tokenizer, self._eos, answer)
        except EngineError as error:
            self.tally.dropped[error.message[:60]] += 1
            return None
        if len(prompt) + len(path.tokens) > self._longest:
            self.tally.dropped["longer than the model's context"] += 1
            return None
        if not any(path.chosen):
            self.tally.dropped["the grammar leaves no choice"] += 1
            return None
        tokens = np.array([*prompt, *path.tokens], dtype=np.int32)
        self.tally.sets[line.set] += 1
        self.tally.tokens += len(tokens)
        self.tally.choices += sum(path.chosen)
        chosen = np.concatenate([np.zeros(len(prompt), np.bool_), np.array(path.chosen, np.bool_)])
        return TokenExample(line.name, line.set, tokens, len(prompt), chosen)
