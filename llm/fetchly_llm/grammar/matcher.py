"""Tokens in, one by one and back; the tokens that may follow, as a bitmask, out: llguidance behind four verbs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.errors import GrammarStateLimit
from fetchly_llm.grammar import bitmask

if TYPE_CHECKING:
    from fetchly_llm.grammar.compiler import Grammar


class Matcher:
    """One sequence under a grammar. Every answer is a function of the tokens accepted so far, however they came there.

    The legal tokens are those of the mask. Where llguidance forces a run of bytes, that is one token (the canonical
    one); `is_legal` and `accept` hold to it too, though llguidance itself would take other spellings of the same bytes.
    End-of-sequence tokens are no part of the sequence: they are legal where the grammar is complete, `accept` takes
    them as its end, and `rollback` neither counts nor needs to undo them.

    A limit of llguidance (states, items, fuel) raises GrammarStateLimit, after which the matcher is of no use.
    """

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._inner = grammar.copy_template()
        self._tokens: list[int] = []
        self._is_ended = False
        self._forced: tuple[int, ...] | None = None
        self._text = bytearray()
        self._states = [] if grammar.rule is None else [grammar.rule.initial]

    @property
    def tokens(self) -> tuple[int, ...]:
        """The accepted tokens, end-of-sequence apart."""
        return tuple(self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        return self._grammar.vocab_size

    def spelling(self, token: int) -> bytes:
        """The bytes of `token`; none for special tokens and ids above the real vocabulary."""
        return self._grammar.vocabulary[token]

    @property
    def text(self) -> str:
        """What the accepted tokens spell; a character cut by the last token is left out."""
        return bytes(self._text).decode(errors="ignore")

    @property
    def is_accepting(self) -> bool:
        """Whether the text is complete under the grammar, though it may be able to go on."""
        return self._is_ended or self._inner.is_accepting()

    @property
    def is_terminated(self) -> bool:
        """Whether the text is complete and nothing but end-of-sequence can follow, or that was accepted."""
        if self._is_ended:
            return True
        stopped = self._inner.is_stopped()
        if stopped:
            self._check()
        return stopped

    def accept(self, token: int) -> None:
        """Append `token`. Raises AssertionError where it is not legal, leaving the matcher as it was."""
        assert self.is_legal(token), f"token {token} is not legal after {self.text[-80:]!r}"
        if token in self._grammar.eos_token_ids:
            self._is_ended = True
            return
        spelt = self._grammar.vocabulary[token]
        if self._grammar.rule is not None:
            state = self._grammar.rule.advance(self._states[-1], self._text, spelt)
            assert state is not None, "is_legal has asked the rule"
            self._states.append(state)
        consumed = self._inner.try_consume_tokens([token])
        self._check()
        assert consumed == 1, "a legal token was refused"
        self._tokens.append(token)
        self._text += spelt
        self._forced = None

    def rollback(self, count: int) -> None:
        """Forget the last `count` accepted tokens; an accepted end-of-sequence is forgotten with them."""
        assert 0 <= count <= len(self._tokens), f"cannot forget {count} of {len(self._tokens)} tokens"
        self._is_ended = False
        if count == 0:
            return
        self._inner.rollback(count)
        self._check()
        length = sum(len(self._grammar.vocabulary[token]) for token in self._tokens[-count:])
        del self._tokens[-count:]
        del self._text[len(self._text) - length :]
        if self._states:
            del self._states[-count:]
        self._forced = None

    def fill_bitmask(self, row: NDArray[np.int32]) -> None:
        """Write the legal tokens into `row`, int32 of shape (ceil(vocab_size / 32),), contiguous.

        Raises GrammarStateLimit where llguidance hit a limit (it then answers with a mask of end-of-sequence alone,
        which must never end a record) or no token is legal.
        """
        assert row.dtype == np.int32
        assert row.flags.c_contiguous
        assert row.shape == (bitmask.words(self._grammar.vocab_size),)
        if self.is_terminated:
            row[:] = 0
            bitmask.set_bits(row, self._grammar.eos_token_ids)
            return
        self._inner.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
        self._check()
        row &= self._grammar.text_tokens
        if not self._grammar.vocabulary.is_complete:
            self._clear_misspelt(row)
        if self._grammar.rule is not None:
            self._grammar.rule.restrict(row, self._states[-1], self._text)
        if self._inner.is_accepting():
            bitmask.set_bits(row, self._grammar.eos_token_ids)
        if not row.any():
            raise GrammarStateLimit(
                f"no token can follow {self.text[-80:]!r}",
                hint="the tokenizer cannot spell what the schema asks for here",
            )

    def forced_tokens(self) -> tuple[int, ...]:
        """The tokens that must come next, in their canonical spelling; empty where there is a choice."""
        if self._forced is None:
            self._forced = self._find_forced()
        return self._forced

    def is_legal(self, token: int) -> bool:
        """Whether the mask has `token`, without computing the mask."""
        if not 0 <= token < self._grammar.vocab_size:
            return False
        if token in self._grammar.eos_token_ids:
            return self.is_accepting
        if self.is_terminated or not bitmask.is_set(self._grammar.text_tokens, token):
            return False
        forced = self.forced_tokens()
        if forced:
            return token == forced[0]
        if self._inner.validate_tokens([token]) != 1:
            self._check()
            return False
        return self._keeps_rule(token)

    def fork(self) -> Matcher:
        """An independent matcher at the same place."""
        other = Matcher.__new__(Matcher)
        other._grammar = self._grammar
        other._inner = self._inner.deep_copy()
        other._tokens = list(self._tokens)
        other._is_ended = self._is_ended
        other._forced = self._forced
        other._text = bytearray(self._text)
        other._states = list(self._states)
        return other

    def _find_forced(self) -> tuple[int, ...]:
        if self.is_terminated:
            return ()
        forced = self._inner.compute_ff_tokens()
        self._check()
        if not self._grammar.vocabulary.is_complete and not self._is_ascii(forced):
            # llguidance drops a byte that no token spells, and forces what comes after it.
            forced = forced[: self._inner.validate_tokens(forced)]
            self._check()
        if self._grammar.rule is None:
            return tuple(forced)
        state, text = self._states[-1], bytearray(self._text)
        for kept, token in enumerate(forced):
            spelt = self._grammar.vocabulary[token]
            following = self._grammar.rule.advance(state, text, spelt)
            if following is None:
                return tuple(forced[:kept])
            state = following
            text += spelt
        return tuple(forced)

    def _clear_misspelt(self, row: NDArray[np.int32]) -> None:
        """Where a byte that no token spells must follow, llguidance's mask is the token that it would force instead."""
        if np.count_nonzero(row) != 1:
            return
        tokens = [int(token) for token in bitmask.legal_tokens(row)]
        if len(tokens) == 1 and not self._is_ascii(tokens) and self._inner.validate_tokens(tokens) != 1:
            row[:] = 0

    def _is_ascii(self, tokens: Sequence[int]) -> bool:
        return all(self._grammar.vocabulary[token].isascii() for token in tokens)

    def _keeps_rule(self, token: int) -> bool:
        rule = self._grammar.rule
        return rule is None or rule.advance(self._states[-1], self._text, self._grammar.vocabulary[token]) is not None

    def _check(self) -> None:
        if self._inner.is_error():
            reason = " ".join(self._inner.get_error().replace("<non-verbose/>", "").split())
            raise GrammarStateLimit(
                f"the grammar's matcher gave up after {len(self._tokens)} tokens: {reason[:200]}",
                hint="simplify the schema (shorter patterns, fewer alternatives) or shorten the page",
            )
