"""Lines of examples.jsonl in, examples in tokens out: each answer walked through the grammar that will enforce it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.errors import EngineError, RequestInvalid
from fetchly_llm.grammar.compiler import GrammarCompiler
from fetchly_llm.grammar.prepare import prepare
from fetchly_llm.json_lines import JsonLine, read_json_lines
from fetchly_llm.tokenizer import Tokenizer
from fetchly_llm.training.answer_path import answer_path
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
        lines = self._taken(files)
        if not lines:
            raise RequestInvalid("there is no example to prepare", hint="make some by `fetchly lab examples`")
        examples: list[TokenExample] = []
        for named in lines:
            on_line(named.name)
            example = self._prepared(named.name, named.line)
            if example is not None:
                examples.append(example)
        if not examples:
            raise RequestInvalid(f"no example could be prepared: {dict(self.tally.dropped.most_common(3))}")
        return TokenExamples(self._digest, _text(lines[0].line, "format"), tuple(examples))

    def _taken(self, files: Iterable[Path]) -> list[_Named]:
        """The lines to prepare, checked to be of one format and of the model's tokens."""
        by_set: dict[str, list[_Named]] = {}
        written_for: str | None = None
        for file in files:
            for line in read_json_lines(file):
                name = f"{line.get('set', str)}/{line.get('id', str)}#{line.object.get('variant', 0)}"
                by_set.setdefault(line.get("set", str), []).append(_Named(name, line))
                written_for = written_for or _text(line, "format")
                if _text(line, "format") != written_for:
                    raise RequestInvalid(f"{line.where}: another format than {written_for}")
                if _text(line, "model") != self._digest:
                    raise RequestInvalid(
                        f"{line.where}: the example is written in the tokens of another model",
                        hint="make the examples with the model that is to learn from them",
                    )
        unknown = [name for name in self._take if name not in by_set]
        if unknown:
            raise RequestInvalid(f"there is no set {unknown[0]!r}", hint=f"sets: {', '.join(sorted(by_set))}")
        return [named for name, lines in by_set.items() for named in _sample(lines, self._take.get(name))]

    def _prepared(self, name: str, line: JsonLine) -> TokenExample | None:
        prompt = line.get("prompt_ids", list)
        if not prompt or not all(type(token) is int and 0 <= token < self._vocab_size for token in prompt):
            raise RequestInvalid(f"{line.where}: 'prompt_ids' is not a list of the model's token ids")
        schema, source, answer = line.get("schema", dict), line.get("source", str), line.get("answer", str)
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
        self.tally.sets[line.get("set", str)] += 1
        self.tally.tokens += len(tokens)
        self.tally.choices += sum(path.chosen)
        chosen = np.concatenate([np.zeros(len(prompt), np.bool_), np.array(path.chosen, np.bool_)])
        return TokenExample(name, line.get("set", str), tokens, len(prompt), chosen)


@dataclass(frozen=True, slots=True)
class _Named:
    """A line, and how its example is called."""

    name: str
    line: JsonLine


def _sample(lines: list[_Named], count: int | None) -> list[_Named]:
    """`count` of the lines, chosen by a hash, in file order."""
    if count is None or count >= len(lines):
        return lines
    ranked = sorted(range(len(lines)), key=lambda number: sha256(f"{lines[number].name}".encode()).digest())
    return [lines[number] for number in sorted(ranked[:count])]


def _text(line: JsonLine, key: str) -> str:
    value = line.get("versions", dict).get(key)
    if not isinstance(value, str):
        raise RequestInvalid(f"{line.where}: 'versions' does not say {key!r}")
    return value
