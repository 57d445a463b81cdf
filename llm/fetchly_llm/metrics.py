"""Steps of one generation in; its counts, milliseconds and acceptance figures out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from fetchly_llm.tree import DraftTree

PLAIN = "plain"
"""The source of a token that no draft proposed: the bonus token of its step."""


@dataclass(frozen=True, slots=True)
class Share:
    """`hits` of `trials`."""

    hits: int = 0
    trials: int = 0

    @property
    def ratio(self) -> float:
        """Hits per trial; 0 without trials."""
        return self.hits / self.trials if self.trials else 0.0

    def __add__(self, other: Share) -> Share:
        return Share(self.hits + other.hits, self.trials + other.trials)


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """Counts and milliseconds of one generation.

    `proposed_by_source` counts nodes of the verified trees, `tokens_by_source` output tokens by the source of their
    node (`plain`: bonus tokens). `acceptance_by_depth[d]`: of the walks that came to a node of depth d with a child,
    how many went on. `structure` and `values`: of the output tokens that lie in JSON's structure (keys, punctuation)
    and in values, how many were drafted. `rows` counts the nodes of all trees, roots included. `ttft_ms` runs from the
    request to its first token; `decode_ms` holds `draft_ms`, `forward_ms`, `stream_ms`, `mask_ms`, `verify_ms` and
    `commit_ms`.
    """

    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    output_tokens: int = 0
    decode_steps: int = 0
    rows: int = 0
    moved_rows: int = 0
    stream_passes: int = 0
    tokens_by_source: Mapping[str, int] = field(default_factory=dict)
    proposed_by_source: Mapping[str, int] = field(default_factory=dict)
    acceptance_by_depth: tuple[Share, ...] = ()
    structure: Share = Share()
    values: Share = Share()
    compile_ms: float = 0.0
    prefill_ms: float = 0.0
    ttft_ms: float = 0.0
    decode_ms: float = 0.0
    draft_ms: float = 0.0
    forward_ms: float = 0.0
    stream_ms: float = 0.0
    mask_ms: float = 0.0
    verify_ms: float = 0.0
    commit_ms: float = 0.0

    @property
    def acceptance_length(self) -> float:
        """Mean tokens gained per decode step, the bonus token included."""
        return self.output_tokens / self.decode_steps if self.decode_steps else 0.0

    @property
    def rows_per_step(self) -> float:
        """Mean nodes of a draft tree, the root included."""
        return self.rows / self.decode_steps if self.decode_steps else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Output tokens per second of decoding."""
        return 1000.0 * self.output_tokens / self.decode_ms if self.decode_ms else 0.0

    @property
    def tpot_ms(self) -> float:
        """Milliseconds per output token after the first."""
        after = self.compile_ms + self.prefill_ms + self.decode_ms - self.ttft_ms
        return after / (self.output_tokens - 1) if self.output_tokens > 1 else 0.0


class Clock:
    """Milliseconds of one generation, by what they were spent on."""

    def __init__(self) -> None:
        self._start = perf_counter()
        self._spent: dict[str, float] = {}
        self.first_token_ms = 0.0

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the time of the block to `name`, whatever else measures within it."""
        start = perf_counter()
        try:
            yield
        finally:
            self._spent[name] = self._spent.get(name, 0.0) + 1000.0 * (perf_counter() - start)

    def mark_first_token(self) -> None:
        """The first token is out. Later calls change nothing."""
        self.first_token_ms = self.first_token_ms or 1000.0 * (perf_counter() - self._start)

    def __getitem__(self, name: str) -> float:
        return self._spent.get(name, 0.0)


@dataclass(slots=True)
class StepTally:
    """What the steps of one generation have added up to."""

    steps: int = 0
    rows: int = 0
    moved_rows: int = 0
    stream_passes: int = 0
    proposed: Counter[str] = field(default_factory=Counter)
    by_depth: list[Share] = field(default_factory=list)

    def add_step(
        self, tree: DraftTree, path: Sequence[int], has_children: Sequence[bool], token_sources: Sequence[str]
    ) -> None:
        """A step over `tree` that accepted the nodes `path` (root first); `has_children` says it of each of them.

        `token_sources` are those of the tokens that it wrote. A drafted token that ends the text is accepted, though
        its node is not on the path.
        """
        accepted = sum(source != PLAIN for source in token_sources)
        self.steps += 1
        self.rows += len(tree)
        self.proposed.update(tree.sources[1:])
        self.moved_rows += sum(node != depth for depth, node in enumerate(path))
        for depth, more in enumerate(has_children):
            if more:
                while len(self.by_depth) <= depth:
                    self.by_depth.append(Share())
                self.by_depth[depth] += Share(int(depth < accepted), 1)
