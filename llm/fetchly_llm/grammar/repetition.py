"""The text so far in; which tokens would repeat a span more often than it stands on the page, out: a pure function.

Small models loop. Two rules stop that, both decided by the text alone, so that rollback and replay agree:

- The entries of an array of verbatim strings are places of the source, one behind the other (places.py), and with
  uniqueItems different texts. Where minItems asks for several, places could run out: there each span is taken at most
  as often as it stands in the source, in any order. An array of unique strings out of an enum takes each once. A token
  that leads where every continuation is used up is illegal as well, so there is no dead end.
- An array of records (items that hold spans deeper down) ends after a record that equals earlier ones more often than
  its rarest span stands in the source, unless minItems asks for more. The last repetition itself stays, on purpose: at
  the token that would complete it, what is left to write is another value in one of its last fields, any that the page
  and the schema let, and with null gone first. To forbid the repetition would turn a loop of equal records, which ends
  here, into a loop of invented ones, which does not. (It would also need the grammar's own lookahead, a mask for each
  place where a used-up record could have gone on otherwise, at every step.) Dropping one equal record is easy; telling
  an invented one is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.grammar import bitmask
from fetchly_llm.grammar.choices import ListedChoices, SpanChoices
from fetchly_llm.grammar.places import PageSpans, Places
from fetchly_llm.grammar.shapes import OPAQUE, Shape, ShapeTable
from fetchly_llm.grammar.spans import SpanIndex, partial, spelling
from fetchly_llm.grammar.uses import Uses
from fetchly_llm.grammar.vocabulary import Vocabulary

_QUOTE, _BACKSLASH, _COMMA, _COLON, _SPACE = b'"\\,: '
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = b"{}[]"

_BEFORE_KEY, _KEY, _BEFORE_VALUE, _STRING, _AFTER = range(5)

# What is watched by a frame or by one around it.
_CHOICES, _RECORDS = 1, 2


class Frame(NamedTuple):
    """An open object or array. `shape` is its own; `pending` is the shape of the value whose key was just read."""

    parent: Frame | None
    shape: int
    is_array: bool
    watched: int
    pending: int = OPAQUE
    uses: Uses | Places | None = None
    records: tuple[bytes, ...] = ()
    record_start: int = 0


class State(NamedTuple):
    """Where the text stands: innermost frame, mode, where the open string began, whether a backslash is open."""

    frame: Frame | None = None
    mode: int = _BEFORE_VALUE
    string_start: int = 0
    is_escaped: bool = False


class _Text:
    """The text so far and one more token, addressed as one."""

    __slots__ = ("_head", "_token", "length")

    def __init__(self, head: bytearray, token: bytes) -> None:
        self._head = head
        self._token = token
        self.length = len(head)

    def cut(self, start: int, end: int) -> bytes:
        if start >= self.length:
            return self._token[start - self.length : end - self.length]
        return bytes(self._head[start : min(end, self.length)]) + self._token[: max(0, end - self.length)]


class _Violation(Exception):
    """The token breaks the rule."""


class RepetitionRule:
    """The rule for one schema over one source. Holds no state of a sequence: that is `State`, moved by `advance`."""

    initial = State()

    def __init__(self, shapes: ShapeTable, index: SpanIndex, vocabulary: Vocabulary) -> None:
        self._shapes = shapes
        self._index = index
        self._vocabulary = vocabulary
        nothing: dict[tuple[object, ...], Uses | Places] = {}  # arrays alike share what they look up on the page
        for shape in shapes:
            if shape.has_choices and _kind(shape) not in nothing:
                nothing[_kind(shape)] = _nothing_taken(shape, index)
        self._unused = {number: nothing[_kind(shape)] for number, shape in enumerate(shapes) if shape.has_choices}
        self._allowed: dict[bytes, int] = {}
        self._quotes = vocabulary.matching(re.compile(rb'"'))
        self._whole_items = vocabulary.matching(re.compile(rb'".*".*[",]', re.DOTALL))
        commas = vocabulary.matching(re.compile(rb"^,|[}\]],"))
        self._records = np.union1d(self._whole_items, commas)
        self._both = np.union1d(self._quotes, commas)

    def advance(self, state: State, text: bytearray, token: bytes) -> State | None:
        """The state after `text` + `token`, where `state` is the one after `text`; None where the rule forbids it."""
        try:
            return self._advance(state, _Text(text, token), token)
        except _Violation:
            return None

    def restrict(self, row: NDArray[np.int32], state: State, text: bytearray) -> None:
        """Clear from `row`, the grammar's mask after `text`, what the rule forbids."""
        frame = state.frame
        if frame is not None and frame.uses is not None and state.mode == _STRING:
            dead = frame.uses.dead_tokens(row, bytes(text[state.string_start :]), self._vocabulary)
            if len(dead):
                bitmask.clear_bits(row, dead)
        forbidden = [
            token
            for token in bitmask.legal_among(row, self._suspects(state)).tolist()
            if self.advance(state, text, self._vocabulary[token]) is None
        ]
        if forbidden:
            bitmask.clear_bits(row, np.array(forbidden, dtype=np.int64))

    def _suspects(self, state: State) -> NDArray[np.int64]:
        """The tokens that may break the rule in other ways than by going on with a string."""
        watched = 0 if state.frame is None else state.frame.watched
        if not watched:
            return self._whole_items
        if not watched & _CHOICES:
            return self._records
        return self._quotes if state.mode in (_STRING, _KEY) else self._both

    def _advance(self, state: State, text: _Text, token: bytes) -> State:
        frame, mode, string_start, is_escaped = state
        position = 0
        while position < len(token):
            if mode in (_STRING, _KEY):
                end, is_escaped = _closing_quote(token, position, is_escaped)
                if end < 0:
                    break
                content = text.cut(string_start, text.length + end)
                if mode == _KEY:
                    assert frame is not None
                    frame = frame._replace(pending=self._shapes[frame.shape].properties.get(content, OPAQUE))
                    mode = _BEFORE_VALUE
                else:
                    frame = self._close_string(frame, content)
                    mode = _AFTER
                position = end + 1
                continue
            byte = token[position]
            at = text.length + position
            if byte == _QUOTE:
                mode = self._open_string(frame, mode)
                string_start = at + 1
            elif byte in (_OPEN_OBJECT, _OPEN_ARRAY):
                frame = self._open(frame, byte == _OPEN_ARRAY, at)
                mode = _BEFORE_VALUE if frame.is_array else _BEFORE_KEY
            elif byte in (_CLOSE_OBJECT, _CLOSE_ARRAY):
                assert frame is not None, "the grammar closes what it opened"
                frame = self._close(frame, text, at + 1)
                mode = _AFTER
            elif byte == _COMMA:
                assert frame is not None, "the grammar writes commas inside of objects and arrays"
                self._refuse_more(frame)
                mode = _BEFORE_VALUE if frame.is_array else _BEFORE_KEY
            elif byte not in (_COLON, _SPACE):
                mode = _AFTER
            position += 1
        if mode == _STRING and frame is not None and frame.uses is not None:
            self._refuse_dead(frame.uses, text.cut(string_start, text.length + len(token)))
        return State(frame, mode, string_start, is_escaped)

    def _open(self, frame: Frame | None, is_array: bool, at: int) -> Frame:
        parent = frame
        if frame is not None and frame.is_array and self._shapes[frame.shape].has_records:
            parent = frame._replace(record_start=at)
        index = self._value_shape(frame)
        shape = self._shapes[index]
        watched = 0 if frame is None else frame.watched
        if is_array:
            watched |= (_CHOICES if shape.has_choices else 0) | (_RECORDS if shape.has_records else 0)
        uses = self._unused.get(index) if is_array else None
        return Frame(parent, index, is_array, watched, uses=uses)

    def _value_shape(self, frame: Frame | None) -> int:
        if frame is None:
            return self._shapes.root
        return self._shapes[frame.shape].items if frame.is_array else frame.pending

    def _close(self, frame: Frame, text: _Text, end: int) -> Frame | None:
        parent = frame.parent
        if parent is not None and parent.is_array and self._shapes[parent.shape].has_records:
            return parent._replace(records=(*parent.records, text.cut(parent.record_start, end)))
        return parent

    def _open_string(self, frame: Frame | None, mode: int) -> int:
        if mode == _BEFORE_KEY:
            return _KEY
        if frame is not None and frame.uses is not None:
            self._refuse_dead(frame.uses, b"")
        return _STRING

    def _close_string(self, frame: Frame | None, content: bytes) -> Frame | None:
        if frame is None or frame.uses is None:
            return frame
        value = partial(content).value
        if not frame.uses.allows(value):
            raise _Violation
        return frame._replace(uses=frame.uses.add(value))

    def _refuse_dead(self, uses: Uses | Places, begun: bytes) -> None:
        if not uses.allows_prefix(begun):
            raise _Violation

    def _refuse_more(self, frame: Frame) -> None:
        """Raise where the array `frame` may take no further item."""
        shape = self._shapes[frame.shape]
        if frame.uses is not None and not shape.has_other_items:
            self._refuse_dead(frame.uses, b"")
        if frame.records and len(frame.records) >= shape.least:
            last = frame.records[-1]
            if (count := frame.records.count(last)) > 1 and count > self._places(last, self._shapes[shape.items]):
                raise _Violation

    def _places(self, record: bytes, shape: Shape) -> int:
        """How often the rarest span of `record` stands in the source; without a span, as often as you like.

        A string that is not in the source is a constant that may stand in a span's place, and does not count.
        """
        places = self._allowed.get(record)
        if places is None:
            spans = self._spans(json.loads(record), shape)
            counts = (self._index.occurrences(span) for span in spans)
            places = min((count for count in counts if count), default=1 << 30)
            self._allowed[record] = places
        return places

    def _spans(self, value: Any, shape: Shape) -> Iterator[str]:
        if isinstance(value, str) and shape.is_span:
            yield value
        elif isinstance(value, dict):
            for key, child in value.items():
                yield from self._spans(child, self._shapes[shape.properties.get(spelling(key), OPAQUE)])
        elif isinstance(value, list):
            for child in value:
                yield from self._spans(child, self._shapes[shape.items])


def _kind(shape: Shape) -> tuple[object, ...]:
    return shape.spans, shape.listed, shape.is_unique, shape.least > 1


def _nothing_taken(shape: Shape, index: SpanIndex) -> Uses | Places:
    if not shape.spans:
        return Uses(ListedChoices(shape.listed))
    if shape.least > 1:
        return Uses(SpanChoices(index, shape.spans, once=shape.is_unique))
    return Places(PageSpans(index, shape.spans, once=shape.is_unique))


def _closing_quote(token: bytes, position: int, is_escaped: bool) -> tuple[int, bool]:
    """Where the open string ends within `token` from `position` on (-1: not), and whether a backslash is left open."""
    if not is_escaped and _BACKSLASH not in token:
        return token.find(b'"', position), False
    for at in range(position, len(token)):
        if is_escaped:
            is_escaped = False
        elif token[at] == _QUOTE:
            return at, False
        elif token[at] == _BACKSLASH:
            is_escaped = True
    return -1, is_escaped
