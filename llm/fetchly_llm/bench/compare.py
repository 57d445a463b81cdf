"""A model's folder, its GGUF file and pages as prompts in; fetchly beside llama.cpp, as rows of figures, out.

The pages themselves are read by the application, which times the measure "page" with `answer` and hands its pairs to
`rows`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from fetchly_llm.bench.compare_figures import CompareFacts, CompareRow, RivalFacts, compare_rows
from fetchly_llm.bench.comparison import Compared, CompareOptions, Comparison
from fetchly_llm.bench.own_side import OwnSide
from fetchly_llm.bench.rival import BATCH, RIVAL, Rival, RivalSettings
from fetchly_llm.bench.rival_program import NoRival, RivalProgram
from fetchly_llm.bench.rival_tuning import tuned
from fetchly_llm.bench.sides import ComparedDocument, Pair, Score, Sides
from fetchly_llm.bench.writing import Writing
from fetchly_llm.config import EngineConfig
from fetchly_llm.engine import Engine
from fetchly_llm.errors import RequestInvalid
from fetchly_llm.request import Message
from fetchly_llm.store.digest import sha256_of
from fetchly_llm.store.entry import ModelFolder
from fetchly_llm.tokenizer import ChatPrompt, Tokenizer

_PROBE = "Crème brûlée: 2,50 € — 4 servings, 35 min.\n\n| Preis | 1.299,00 |"
_CHARACTERS = 8
"""Characters of a page that are tokenised for each token of room: more than tokens have on average."""


class CompareBench:
    """One model on both sides, or on ours alone: `skipped` then says why. Close it, as the rival holds weights."""

    def __init__(self, model: ModelFolder, config: EngineConfig, rival: RivalProgram | NoRival) -> None:
        self._model = model
        self._config = config
        self._program = rival if isinstance(rival, RivalProgram) else None
        self.skipped = rival.reason if isinstance(rival, NoRival) else None
        self._rival: Rival | None = None
        self._facts: CompareFacts | None = None

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's. Raises ModelMissing, ModelUnsupported."""
        return Tokenizer.load(self._model.path)

    def measure(
        self,
        documents: Sequence[ComparedDocument],
        options: CompareOptions,
        on_document: Callable[[ComparedDocument], None] = lambda document: None,
    ) -> Compared:
        """Every measure that needs no page. The rival is opened here, its settings chosen on the longest prompt, and
        stays open; our engine is closed in the end. Raises what loading raises, and RequestInvalid for a GGUF file of
        another model."""
        load = os.getloadavg()[0]
        engine = Engine.load(self._model.path, self._config)
        try:
            longest = max((document.prompt_ids for document in documents), key=len)
            self._open_rival(longest, engine)
            self._facts = self._facts_of(engine, options, load)
            return Comparison(OwnSide(engine), self._rival, options).run(documents, on_document)
        finally:
            engine.close()

    def warm(self, instruction: str) -> None:
        """Have the rival hold the beginning that all its prompts with this instruction share."""
        frame = self._frame(instruction)
        self._opened.prefill(frame.ids[: frame.segment_ends[-1]])

    def answer(
        self, instruction: str, page: str, schema: Mapping[str, Any], max_tokens: int, budget: int | None = None
    ) -> Writing:
        """What the rival writes about a page, cut to what its context leaves beside instruction and answer, or to
        `budget` tokens. They are its own tokenizer's. Raises RequestInvalid where it refuses, or nothing is left for
        the page."""
        rival, frame = self._opened, self._frame(instruction)
        end = frame.segment_ends[-1]
        room = rival.settings.context_length - max_tokens - len(frame.ids)
        if room < 1:
            raise RequestInvalid(
                f"instruction and answer take {len(frame.ids)} and {max_tokens} tokens of {RIVAL}'s context of "
                f"{rival.settings.context_length}"
            )
        room = min(room, budget) if budget is not None else room
        shown = rival.encode(page[: room * _CHARACTERS])[:room]
        return rival.write((*frame.ids[:end], *shown, *frame.ids[end:]), schema, max_tokens)

    def rows(
        self, compared: Compared, pages: Sequence[Pair] = (), scores: Mapping[str, Sides[Score]] | None = None
    ) -> tuple[CompareRow, ...]:
        """The figures of what `measure` measured and of the application's pairs."""
        assert self._facts is not None, "measure comes first"
        return compare_rows([*compared.pairs, *pages], compared.refusals, self._facts, scores)

    def close(self) -> None:
        """Free the rival."""
        if self._rival is not None:
            self._rival.close()
            self._rival = None

    @property
    def _opened(self) -> Rival:
        assert self._rival is not None, "measure comes first, and there must be a rival"
        return self._rival

    def _open_rival(self, prompt_ids: Sequence[int], engine: Engine) -> None:
        if self._program is None:
            return
        program = self._program

        def opened(settings: RivalSettings) -> Rival:
            return Rival(program.library, program.gguf, settings)

        self._rival = opened(tuned(opened, prompt_ids, engine.context_length, engine.backend.threads))
        if self._rival.encode(_PROBE) != self.tokenizer.encode(_PROBE):
            raise RequestInvalid(
                f"{program.gguf} has other tokens than {self._model.name}: the prompts would not be the same",
                hint="name the GGUF file that the model was made of",
            )

    def _frame(self, instruction: str) -> ChatPrompt:
        """The prompt around an empty page."""
        return self.tokenizer.chat([Message("system", (instruction,)), Message("user", ("",))])

    def _facts_of(self, engine: Engine, options: CompareOptions, load: float) -> CompareFacts:
        rival = self._rival
        return CompareFacts(
            model=self._model.name,
            backend=engine.backend.identity,
            threads=engine.backend.threads,
            width=engine.backend.width,
            context_length=engine.context_length,
            decode_tokens=options.decode_tokens,
            max_tokens=options.max_tokens,
            load=load,
            rival=None
            if rival is None or self._program is None
            else RivalFacts(
                name=RIVAL,
                version=rival.version,
                gguf_sha256=sha256_of(self._program.gguf),
                same_weights=self._program.same_weights,
                threads=rival.settings.threads,
                prefill_threads=rival.settings.prefill_threads,
                flash_attention=rival.settings.flash_attention,
                batch=BATCH,
            ),
        )
