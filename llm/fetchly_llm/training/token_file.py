"""Examples in tokens in, a safetensors file out, and back: all that training needs, without pages and grammars.

Tensors: `tokens` (all sequences one after the other), `lengths` and `prompts` (int32, tokens of each sequence and of
its prompt), `chosen` (uint8, one for each token: whether it is a choice to learn). Ids and sets are metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import save

from fetchly_llm.errors import RequestInvalid

VERSION = "fetchly-tokens-1"


@dataclass(frozen=True, slots=True)
class TokenExample:
    """One sequence: `tokens` (int32), of which the first `prompt` are given, and `chosen` (bool), one for each token:
    whether it is one of the answer's choices."""

    name: str
    set: str
    tokens: NDArray[np.int32]
    prompt: int
    chosen: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class TokenExamples:
    """Examples of one model and one format. `model` is the digest of the model in whose tokens they are."""

    model: str
    format: str
    examples: tuple[TokenExample, ...]

    def digest(self) -> str:
        """The sha256 of all that is learnt from, in its order; names and sets are no part of it."""
        found = sha256()
        for example in self.examples:
            found.update(np.array([len(example), example.prompt], "<i8").tobytes())
            found.update(example.tokens.astype("<i4").tobytes())
            found.update(example.chosen.astype(np.uint8).tobytes())
        return found.hexdigest()


def write_token_file(file: Path, examples: TokenExamples) -> None:
    """Write them under a name that is free. Raises OSError."""
    all_of = examples.examples
    ids = np.concatenate([example.tokens for example in all_of])
    narrow = np.uint16 if int(ids.max()) <= np.iinfo(np.uint16).max else np.int32
    data = save(
        {
            "tokens": ids.astype(narrow),
            "lengths": np.array([len(example) for example in all_of], dtype=np.int32),
            "prompts": np.array([example.prompt for example in all_of], dtype=np.int32),
            "chosen": np.concatenate([example.chosen for example in all_of]).astype(np.uint8),
        },
        {
            "version": VERSION,
            "model": examples.model,
            "format": examples.format,
            "names": json.dumps([example.name for example in all_of]),
            "sets": json.dumps([example.set for example in all_of]),
        },
    )
    with file.open("xb") as stream:
        try:
            stream.write(data)
            stream.flush()
        except BaseException:
            file.unlink()
            raise


def read_token_files(files: Iterable[Path]) -> TokenExamples:
    """The examples of several files in order. Raises RequestInvalid for files that are not such, that disagree about
    model or format, and for none at all."""
    found = [_read(file) for file in files]
    examples = tuple(example for part in found for example in part.examples)
    if not examples:
        raise RequestInvalid("there is no example to learn from")
    first = found[0]
    for part in found[1:]:
        if (part.model, part.format) != (first.model, first.format):
            raise RequestInvalid(
                "the files are of different models or formats", hint="prepare all examples with one model and version"
            )
    return TokenExamples(first.model, first.format, examples)


def _read(file: Path) -> TokenExamples:
    try:
        with safetensors.safe_open(file, "np") as opened:
            facts = opened.metadata() or {}
            if facts.get("version") != VERSION:
                raise ValueError(f"it is no {VERSION}")
            tokens, lengths, prompts, chosen = (
                opened.get_tensor(name) for name in ("tokens", "lengths", "prompts", "chosen")
            )
        names, sets = json.loads(facts["names"]), json.loads(facts["sets"])
        ends = np.cumsum(lengths, dtype=np.int64)
        if not len(names) == len(sets) == len(lengths) == len(prompts) > 0:
            raise ValueError("it has none, or its parts have different lengths")
        if not tokens.shape == chosen.shape == (int(ends[-1]),):
            raise ValueError("its sequences have other lengths than it says")
        if (prompts < 1).any() or (prompts >= lengths).any():
            raise ValueError("a prompt is empty, or has no answer")
        model, written_for = facts["model"], facts["format"]
    except (OSError, ValueError, KeyError, TypeError, IndexError, safetensors.SafetensorError) as error:
        raise RequestInvalid(
            f"{file} holds no prepared examples: {error}", hint="make it by `fetchly train prepare`"
        ) from error
    starts = ends - lengths
    examples = tuple(
        TokenExample(
            names[number],
            sets[number],
            tokens[starts[number] : ends[number]].astype(np.int32),
            int(prompts[number]),
            chosen[starts[number] : ends[number]].astype(np.bool_),
        )
        for number in range(len(names))
    )
    for example in examples:
        if example.chosen[: example.prompt].any() or not example.chosen.any():
            raise RequestInvalid(
                f"{file} holds no prepared examples: {example.name} has no choice in its answer, or one in its prompt",
                hint="make it by `fetchly train prepare`",
            )
    return TokenExamples(model, written_for, examples)
