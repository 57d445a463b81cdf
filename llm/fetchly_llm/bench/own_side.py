"""An engine and documents in; prompts prefilled and texts written by fetchly, with the time that it took, out."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from fetchly_llm.bench.sides import ComparedDocument
from fetchly_llm.bench.writing import Writing
from fetchly_llm.engine import Engine
from fetchly_llm.grammar.prepare import PreparedSchema, prepare
from fetchly_llm.prefix_cache import PrefilledPrompt
from fetchly_llm.request import GenerationRequest, SamplingParams


class OwnSide:
    """fetchly's engine, greedy. Raises what the engine raises."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def prefill(self, prompt_ids: Sequence[int]) -> float:
        """Milliseconds to compute a prompt from an empty cache."""
        backend = self._engine.backend
        start = perf_counter()
        backend.prefill(backend.new_cache(len(prompt_ids) + self._engine.tree_rows), prompt_ids)
        return 1000.0 * (perf_counter() - start)

    def hold(self, document: ComparedDocument) -> PrefilledPrompt:
        """A cache that holds the document's prompt, for `write`."""
        return self._engine.prefill(document.prompt_ids, document.shared_prefix)

    def warm(self, document: ComparedDocument) -> None:
        """Have the prefix cache hold what all pages of the schema share."""
        shared = document.shared_prefix
        self._engine.prefill(document.prompt_ids[: shared + 1], shared)

    def prepare(self, document: ComparedDocument) -> PreparedSchema:
        """What of a schema is made once for all its pages."""
        return prepare(document.schema, mode="check")

    def write(
        self,
        document: ComparedDocument,
        schema: PreparedSchema | None,
        max_tokens: int,
        *,
        draft: tuple[str, ...] = (),
        prefilled: PrefilledPrompt | None = None,
    ) -> Writing:
        """Write one text: free where `schema` is None, plain without `draft`, from the prompt's cache where it is given
        and else from the prefix cache. The grammar over this page's text is made while the clock runs."""
        token_ms: list[float] = []
        start = perf_counter()
        generation = self._engine.generate(
            GenerationRequest(
                prompt_ids=document.prompt_ids,
                shared_prefix=document.shared_prefix,
                schema=schema.enforced if schema else None,
                allowed_escapes=schema.allowed_escapes if schema else None,
                source=document.source,
                sampling=SamplingParams(max_tokens=max_tokens),
                draft=draft,
                cut=True,
                on_token=lambda token: token_ms.append(1000.0 * (perf_counter() - start)),
            ),
            prefilled,
        )
        total_ms = 1000.0 * (perf_counter() - start)
        return Writing(generation.text, len(document.prompt_ids), tuple(token_ms), total_ms, generation.is_complete)
