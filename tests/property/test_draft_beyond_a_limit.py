"""A draft that runs the grammar's matcher into a limit of its own: plain decoding goes on where the draft could not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fetchly_llm.engine import Engine
from fetchly_llm.errors import GrammarStateLimit
from fetchly_llm.grammar.free_text import FreeText
from fetchly_llm.request import GenerationRequest, SamplingParams
from fetchly_llm.speculation.source import Candidate
from tests.support.toy_backend import EOS_IDS, ToyBackend, table_law, toy_engine, toy_tokenizer

TOKENIZER = toy_tokenizer()
TEXT_TOKENS = (*TOKENIZER.encode("abcd"), EOS_IDS[1])
PROMPT = tuple(TOKENIZER.encode("abcd abba"))


class GivesUp(FreeText):
    """A matcher that hits a limit of its own on one token, and is of no use from then on."""

    limit_at = -1
    is_broken = False

    def accept(self, token: int) -> None:
        self.is_broken = self.is_broken or token == self.limit_at
        self._check()
        super().accept(token)

    def forced_tokens(self) -> tuple[int, ...]:
        self._check()
        return super().forced_tokens()

    def fill_bitmask(self, row: NDArray[np.int32]) -> None:
        self._check()
        super().fill_bitmask(row)

    def _check(self) -> None:
        if self.is_broken:
            raise GrammarStateLimit("the matcher gave up")


class GivingUp(Engine):
    """An engine of such matchers."""

    limit_at = -1

    def _matcher(self, request: GenerationRequest) -> Any:
        matcher = GivesUp(self._grammars._vocabulary, self._grammars._eos)
        matcher.limit_at = self.limit_at
        return matcher


@pytest.mark.parametrize("place", [0, 3])
def test_a_grammar_limit_that_only_a_draft_runs_into_changes_nothing(place: int) -> None:
    plain_request = GenerationRequest(PROMPT, 0, None, "", SamplingParams(0.7, 5, max_tokens=12), draft=(), cut=True)
    law = table_law(11, TEXT_TOKENS[:-1])
    truth = toy_engine(ToyBackend(law, width=6)).generate(plain_request).token_ids
    assert len(truth) == 12
    bad = next(token for token in TOKENIZER.encode("xyz") if token not in truth)

    class Misled:
        name = "misled"
        written = 0

        def extend(self, tokens: Sequence[int]) -> None:
            self.written += len(tokens)

        def propose(self, path: Sequence[int]) -> Sequence[Candidate]:
            at = self.written + len(path)
            return [Candidate(bad if at == place else truth[at], 0.9)] if at < len(truth) else []

    engine = toy_engine(ToyBackend(law, width=6), kind=GivingUp, sources={"misled": lambda request: Misled()})
    engine.limit_at = bad
    drafted = engine.generate(replace(plain_request, draft=("misled",)))
    assert drafted.token_ids == truth
    assert drafted.stats.decode_steps <= len(truth)
    engine.limit_at = truth[4]
    with pytest.raises(GrammarStateLimit):
        engine.generate(replace(plain_request, draft=("misled",)))
