"""Texts in, how many tokens a server's model makes of them out: asked where the server tells, else a safe estimate."""

from __future__ import annotations

import json
import math
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from fetchly.extraction.server_answers import refusal_of
from fetchly.extraction.server_connection import ServerConnection

QUESTION_CHARACTERS = 100_000
"""Texts are put together to questions of this length: a page has hundreds."""
KEPT_COUNTS = 256
KEPT_CHARACTERS = 10_000
TOKENIZE_TIMEOUT_S = 30.0

_NOT_IMPLEMENTED = 501
_PIECE = re.compile(r" ?[A-Za-z]+|\s+|[^A-Za-z\s]")
_LETTERS = 2.5


def estimate_tokens(text: str) -> int:
    """More tokens than tokenizers in use make of a page: of a word in ASCII every two and a half letters are one, every
    digit and mark is one, and beyond ASCII every byte of UTF-8 is.

    An English tokenizer of 49,000 tokens makes fewer of each of 158 pages in several languages: three for every five.
    """
    return sum(_estimate_piece(piece) for piece in _PIECE.findall(text))


def _estimate_piece(piece: str) -> int:
    word = piece.removeprefix(" ")  # the space before a word is part of it
    if word and word[0].isascii() and word[0].isalpha():
        return math.ceil(len(word) / _LETTERS)
    return len(piece.encode("utf-8", "surrogatepass"))


class TokenCounter:
    """Counts by the server's `/tokenize` (vLLM, SGLang, llama.cpp), which stands outside `/v1`.

    Several texts are asked about together, and each gets its share of the whole by estimate, rounded up: their sum is
    never less than what they are as one text. A text asked about alone is counted exactly.
    """

    def __init__(self, connection: ServerConnection, model: str) -> None:
        self._connection = connection
        self._model = model
        self._url = f"{connection.reference.root}/tokenize"
        self._is_absent = False
        self._counts: OrderedDict[str, int] = OrderedDict()

    @property
    def is_exact(self) -> bool:
        """Whether the server tells. Asks it."""
        self.count(["a"])
        return not self._is_absent

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text. Errors: those of ServerConnection.ask, ExtractionError where the server fails."""
        estimates = [estimate_tokens(text) for text in texts]
        if self._is_absent:
            return estimates
        shares: list[int] = []
        for group in _groups(texts):
            whole = self._ask("\n".join(texts[index] for index in group))
            if whole is None:
                return estimates
            total = sum(estimates[index] for index in group)
            shares += [math.ceil(whole * estimates[index] / total) if total else 0 for index in group]
        return shares

    def _ask(self, text: str) -> int | None:
        """Tokens of one text; None where the server does not tell."""
        if not text:
            return 0
        if text in self._counts:
            self._counts.move_to_end(text)
            return self._counts[text]
        # `prompt` is vLLM's and SGLang's word for it, `content` is llama.cpp's; each passes over the other's.
        question = {
            "model": self._model,
            "prompt": text,
            "content": text,
            "add_special_tokens": False,
            "add_special": False,
        }
        answer = self._connection.ask(self._url, question, timeout_s=TOKENIZE_TIMEOUT_S)
        if answer.status >= 500 and answer.status != _NOT_IMPLEMENTED:
            raise refusal_of(answer, self._url, self._connection, self._model)
        count = _count(answer.body) if answer.status == 200 else None
        if count is None or count > len(text.encode("utf-8", "replace")) + 1:
            self._is_absent = True
            return None
        if len(text) <= KEPT_CHARACTERS:
            self._counts[text] = count
            if len(self._counts) > KEPT_COUNTS:
                self._counts.popitem(last=False)
        return count


def _count(body: bytes) -> int | None:
    """What an answer says; None for one that says none: servers answer to routes that they do not have, too."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    tokens, count = (value.get("tokens"), value.get("count")) if isinstance(value, dict) else (None, None)
    if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
        return count
    return len(tokens) if isinstance(tokens, list) else None


def _groups(texts: Sequence[str]) -> Iterator[list[int]]:
    """Indices of neighbors, together no longer than a question, in their order."""
    group: list[int] = []
    length = 0
    for index, text in enumerate(texts):
        if group and length + len(text) > QUESTION_CHARACTERS:
            yield group
            group, length = [], 0
        group.append(index)
        length += len(text)
    if group:
        yield group
