"""A number in; a small language of tokens, and sources that draft in it, drawn by that number, out.

What may follow a text is a function of the text: often one token (the grammar forces it), often several, sometimes an
end of sequence besides, sometimes nothing more. No tokenizer, no model.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from fetchly_llm.speculation.draft import Proposal
from fetchly_llm.speculation.source import Candidate

TEXT_TOKENS = tuple(range(10))
EOS = frozenset({10, 11})
OUTSIDE = (-1, 12, 13)
_LONGEST = 12


@dataclass(frozen=True, slots=True)
class Following:
    """What may come after a text: `legal` has no end of sequence, `ends` says that one may come."""

    legal: tuple[int, ...]
    ends: bool = False


@dataclass(slots=True)
class HashedLanguage:
    """As a matcher. `sight` is how many of the tokens that must come next it knows when asked."""

    seed: int
    sight: int = 2
    accepted: list[int] = field(default_factory=list)

    def following(self, text: Sequence[int]) -> Following:
        """A function of seed and text."""
        lot = random.Random(f"{self.seed} {list(text)}")
        kind = lot.random()
        if len(text) >= _LONGEST or (text and kind < 0.12):
            return Following(())
        if kind < 0.5:
            return Following((lot.choice(TEXT_TOKENS),))
        return Following(tuple(sorted(lot.sample(TEXT_TOKENS, lot.randint(2, 6)))), lot.random() < 0.3)

    @property
    def is_terminated(self) -> bool:
        return not self.following(self.accepted).legal

    def forced_tokens(self) -> tuple[int, ...]:
        """Up to `sight` tokens."""
        run: list[int] = []
        while len(run) < self.sight:
            following = self.following([*self.accepted, *run])
            if len(following.legal) != 1 or following.ends:
                break
            run.extend(following.legal)
        return tuple(run)

    def is_legal(self, token: int) -> bool:
        following = self.following(self.accepted)
        return token in following.legal or (token in EOS and (following.ends or not following.legal))

    def accept(self, token: int) -> None:
        assert token not in EOS
        assert self.is_legal(token), f"{token} is not legal after {self.accepted}"
        self.accepted.append(token)

    def rollback(self, count: int) -> None:
        assert 0 <= count <= len(self.accepted)
        del self.accepted[len(self.accepted) - count :]


@dataclass(slots=True)
class HashedSource:
    """Proposes legal, illegal and ending tokens, some of them twice, up to `depth` tokens ahead."""

    name: str
    seed: int
    depth: int = 3
    written: list[int] = field(default_factory=list)

    def extend(self, tokens: Sequence[int]) -> None:
        self.written.extend(tokens)

    def propose(self, path: Sequence[int]) -> Sequence[Candidate]:
        """A function of seed and text."""
        if len(path) >= self.depth:
            return ()
        lot = random.Random(f"{self.name} {self.seed} {self.written} {list(path)}")
        tokens = [lot.choice((*TEXT_TOKENS, *EOS, *OUTSIDE)) for _ in range(lot.randint(0, 8))]
        return [Candidate(token, lot.choice((0.05, 0.1, 0.25, 0.4, 0.7, 1.0)), lot.randrange(2)) for token in tokens]

    def distribution(self, path: Sequence[int]) -> Proposal | None:
        """Of what it proposes, as shares; some of them nothing."""
        tokens = sorted({candidate.token for candidate in self.propose(path)})
        if not tokens:
            return None
        lot = random.Random(f"shares {self.name} {self.seed} {self.written} {list(path)}")
        weights = np.array([lot.choice((0.0, 0.5, 1.0, 3.0)) for _ in tokens])
        return Proposal(np.array(tokens, dtype=np.int64), weights / max(weights.sum(), 1e-9))


seeds = st.integers(0, 2**32)


@st.composite
def languages(draw: st.DrawFn) -> HashedLanguage:
    """Somewhere inside a text that can go on."""
    language = HashedLanguage(draw(seeds), draw(st.integers(1, 4)))
    for _ in range(draw(st.integers(0, 4))):
        following = language.following(language.accepted)
        assume(following.legal)
        language.accept(following.legal[draw(seeds) % len(following.legal)])
    assume(not language.is_terminated)
    return language


@st.composite
def source_lists(draw: st.DrawFn) -> list[HashedSource]:
    """None to three sources."""
    return [HashedSource(name, draw(seeds)) for name in ("lookup", "streams", "other")[: draw(st.integers(0, 3))]]
