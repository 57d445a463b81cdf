"""A request, plain decoding's answer to it and a grammar in; draft sources that are out to break exactness out.

Each is a rule that proposes what follows a path. It knows more than a real source ever does: the answer, and what the
grammar allows. What it proposes may be illegal, wrong, repeated or unlikely beyond measure.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fetchly_llm.engine import SourceMaker
from fetchly_llm.grammar import bitmask
from fetchly_llm.grammar.compiler import GrammarCompiler
from fetchly_llm.grammar.free_text import FreeText
from fetchly_llm.grammar.matcher import Matcher
from fetchly_llm.request import GenerationRequest
from fetchly_llm.speculation.source import Candidate

_SMALLEST = 5e-324


class Drafter:
    """One adversarial source over one sequence; its `rule` is one of RULES."""

    def __init__(
        self,
        name: str,
        matcher: Matcher | FreeText,
        last: int,
        answer: Sequence[int],
        vocab_size: int,
        eos: Sequence[int],
    ) -> None:
        self.name = name
        self.vocab_size = vocab_size
        self.eos = tuple(eos)
        self.random = random.Random(f"{name} {last} {len(answer)}")
        self._rule = RULES[name]
        self._matcher = matcher
        self._answer = tuple(answer)
        self._written: list[int] = [last]

    def extend(self, tokens: Sequence[int]) -> None:
        """The output has grown by `tokens`."""
        for token in tokens:
            self._matcher.accept(token)
        self._written.extend(tokens)

    def propose(self, path: Sequence[int]) -> Sequence[Candidate]:
        """What the rule says."""
        return self._rule(self, tuple(path))

    def right(self, path: tuple[int, ...], ahead: int = 0) -> int | None:
        """The token of plain decoding's answer that follows `path` (`ahead` tokens later); None off the answer."""
        before = (*self._written[1:], *path)
        at = len(before) + ahead
        return self._answer[at] if before == self._answer[: len(before)] and at < len(self._answer) else None

    def last(self, path: tuple[int, ...]) -> int:
        """The last token of the text."""
        return path[-1] if path else self._written[-1]

    def legal(self, path: tuple[int, ...]) -> list[int]:
        """Every token that may follow `path`, ends of sequence apart."""
        for token in path:
            self._matcher.accept(token)
        row = bitmask.allocate(1, self.vocab_size)[0]
        self._matcher.fill_bitmask(row)
        self._matcher.rollback(len(path))
        return [token for token in bitmask.legal_tokens(row).tolist() if token not in self.eos]

    def wrong(self, path: tuple[int, ...], most: int) -> list[int]:
        """Up to `most` legal tokens other than the right one."""
        wrong = [token for token in self.legal(path) if token != self.right(path)]
        return self.random.sample(wrong, min(most, len(wrong)))


Rule = Callable[[Drafter, tuple[int, ...]], list[Candidate]]


def _random(drafter: Drafter, path: tuple[int, ...]) -> list[Candidate]:
    tokens = drafter.random.sample(range(drafter.vocab_size), 12)
    return [Candidate(token, 1.0 - drafter.random.random(), drafter.random.randrange(3)) for token in tokens]


def _wrong(drafter: Drafter, path: tuple[int, ...]) -> list[Candidate]:
    return [Candidate(token, 1.0) for token in drafter.wrong(path, 3)]


def _right(drafter: Drafter, path: tuple[int, ...]) -> list[Candidate]:
    token = drafter.right(path)
    return [] if token is None else [Candidate(token, 1.0)]


def _late(drafter: Drafter, path: tuple[int, ...]) -> list[Candidate]:
    """The right token, always after a wrong one that looks a little better. Never in doubt for long: each proposal is
    a grade of its own, so that nothing is learnt from the last."""
    token = drafter.right(path)
    if token is None:
        return []
    grade = drafter.random.randrange(2**40)
    return [*(Candidate(wrong, 0.5, grade) for wrong in drafter.wrong(path, 1)), Candidate(token, 0.48, grade + 1)]


def _early(drafter: Drafter, path: tuple[int, ...]) -> list[Candidate]:
    """The answer, one token too early."""
    token = drafter.right(path, ahead=1)
    return [] if token is None else [Candidate(token, 0.9)]


def _illegal(drafter: Drafter, path: tuple[int, ...]) -> list[Candidate]:
    legal = set(drafter.legal(path))
    text = [token for token in drafter.random.sample(range(drafter.vocab_size), 20) if token not in legal]
    size = drafter.vocab_size
    absurd = [-1, -size, size, size + 1, 32 * bitmask.words(size), 2**31, 2**63, -(2**63)]
    return [Candidate(token, 1.0) for token in (*absurd, *text)]


def _ends(drafter: Drafter, path: tuple[int, ...]) -> list[Candidate]:
    """An end of sequence at every place, and the text going on after it."""
    ends = [Candidate(token, 1.0) for token in drafter.eos]
    return ends + _right(drafter, path) + [Candidate(token, 0.3) for token in drafter.wrong(path, 1)]


def _doubled(drafter: Drafter, path: tuple[int, ...]) -> list[Candidate]:
    """Every token several times, with other estimates."""
    tokens = [candidate.token for candidate in _right(drafter, path)] + drafter.wrong(path, 2)
    return [Candidate(token, chance, int(10 * chance)) for chance in (0.2, 0.6, 0.4) for token in tokens * 2]


def _deep(drafter: Drafter, path: tuple[int, ...]) -> list[Candidate]:
    """One chain without an end: right for a while, then legal, then anything."""
    token = drafter.right(path)
    if token is None or drafter.random.random() < 0.15:
        return [Candidate(wrong, 1.0) for wrong in drafter.wrong(path, 1)]
    return [Candidate(token, 1.0)]


def _bushy(drafter: Drafter, path: tuple[int, ...]) -> list[Candidate]:
    """Whatever is legal, all of it equally likely."""
    legal = drafter.legal(path)
    drafter.random.shuffle(legal)
    return [Candidate(token, 1.0 / len(legal), drafter.random.randrange(2**40)) for token in legal]


def _again(drafter: Drafter, path: tuple[int, ...]) -> list[Candidate]:
    return [Candidate(drafter.last(path), 1.0)]


def _beyond(drafter: Drafter, path: tuple[int, ...]) -> list[Candidate]:
    """Ids that the logits have a column for and that stand for no text."""
    return [
        Candidate(token, 1.0) for token in range(drafter.vocab_size) if token > drafter.vocab_size - 40 or token < 3
    ]


def _doubtful(drafter: Drafter, path: tuple[int, ...]) -> list[Candidate]:
    """Estimates so small that their products vanish."""
    tokens = [candidate.token for candidate in _right(drafter, path)] + drafter.wrong(path, 2)
    return [Candidate(token, _SMALLEST) for token in tokens]


RULES: Mapping[str, Rule] = {
    "random": _random,
    "wrong": _wrong,
    "right": _right,
    "late": _late,
    "early": _early,
    "illegal": _illegal,
    "ends": _ends,
    "doubled": _doubled,
    "deep": _deep,
    "bushy": _bushy,
    "again": _again,
    "beyond": _beyond,
    "doubtful": _doubtful,
}
ADVERSARIES = tuple(RULES)


@dataclass(slots=True)
class Drafters:
    """Makers of all adversaries, for `Engine(sources=...)`. `answer` is what they are told: set it before a request."""

    grammars: GrammarCompiler
    eos: Sequence[int]
    vocab_size: int
    answer: Sequence[int] = ()

    def makers(self) -> dict[str, SourceMaker]:
        """By name."""
        return {name: self._maker(name) for name in ADVERSARIES}

    def make(self, name: str, request: GenerationRequest) -> Drafter:
        """One adversary for one request."""
        return Drafter(name, self.matcher(request), request.prompt_ids[-1], self.answer, self.vocab_size, self.eos)

    def matcher(self, request: GenerationRequest) -> Matcher | FreeText:
        """A new one, under the request's schema."""
        if request.schema is None:
            return self.grammars.free_text()
        return self.grammars.compile(request.schema, request.source, allowed_escapes=request.allowed_escapes).matcher()

    def _maker(self, name: str) -> SourceMaker:
        return lambda request: self.make(name, request)
