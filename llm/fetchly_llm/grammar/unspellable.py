"""An enforced schema and a vocabulary in; the schema without what no token spells, and where nothing is left, out.

A byte-level vocabulary may lack bytes (SmolLM2's has none for planes 4 to 11 of Unicode). llguidance does not see that:
where only such a byte can follow, it forces tokens that spell something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar import probe
from fetchly_llm.grammar.findings import shown
from fetchly_llm.grammar.inspection import RARE
from fetchly_llm.grammar.schema_graph import LIST_KEYWORDS, MAP_KEYWORDS, SCHEMA_KEYWORDS, join
from fetchly_llm.grammar.vocabulary import Vocabulary

_NOTHING: Final[Mapping[str, Any]] = {"enum": []}
_NULLS: Final = ({"type": "null"}, {"enum": [None]})
_REACHES_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]|\\[uxpPUc]")
_SURROGATES = range(0xD800, 0xE000)
_MOST_RANGES = 200


@dataclass(frozen=True, slots=True)
class Spellable:
    """`schema` as it can be written; for the pointers of parts of which nothing is left, why."""

    schema: Mapping[str, Any]
    emptied: Mapping[str, str]


class SpellableParts:
    """Takes out of schemas what one vocabulary cannot spell."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def of(self, schema: Mapping[str, Any]) -> Spellable:
        """The parts of an enforced schema that can be written.

        A listed value and an optional name are left out where the lint has warned of their characters and something
        besides null is left. Raises SchemaRefused, located, for any others that are not spelt: nothing is left out
        silently.
        """
        if self._vocabulary.is_complete:
            return Spellable(schema, {})
        walk = _Walk(self)
        made = walk.node(schema, "")
        return Spellable(made if walk.has_changed else schema, walk.emptied)

    def has(self, value: Any) -> bool:
        """Whether a value can be spelt in our layout."""
        return self._vocabulary.spells(json.dumps(value, ensure_ascii=False))

    @cached_property
    def pattern(self) -> str | None:
        """A pattern of the texts that can be spelt; None where that would take too many ranges of characters."""
        ranges = self._missing_ranges()
        if len(ranges) > _MOST_RANGES:
            return None
        return f"^[^{''.join(f'{chr(first)}-{chr(last)}' for first, last in ranges)}]*$" if ranges else None

    def _missing_ranges(self) -> list[tuple[int, int]]:
        """The code points beyond ASCII of which some byte is in no token: runs, first and last included.

        Below them, JSON escapes control characters, and a vocabulary without a letter of ASCII spells no JSON.
        """
        codes = np.arange(0x80, 0x110000, dtype=np.int64)
        codes = codes[(codes < _SURROGATES.start) | (codes >= _SURROGATES.stop)]
        has = np.array([byte in self._vocabulary.used_bytes for byte in range(256)])
        two, three = codes < 0x800, codes < 0x10000
        lead = np.where(two, 0xC0 | codes >> 6, np.where(three, 0xE0 | codes >> 12, 0xF0 | codes >> 18))
        spelt = has[lead] & has[0x80 | codes & 0x3F]
        spelt &= two | has[0x80 | codes >> 6 & 0x3F]
        spelt &= three | has[0x80 | codes >> 12 & 0x3F]
        missing = codes[~spelt]
        cuts = np.flatnonzero(np.diff(missing) > 1) + 1
        return [(int(run[0]), int(run[-1])) for run in np.split(missing, cuts) if run.size]


class _Walk:
    """One pass over one schema; `emptied` are the pointers of what is left without a value."""

    def __init__(self, parts: SpellableParts) -> None:
        self._parts = parts
        self.emptied: dict[str, str] = {}
        self.has_changed = False

    def node(self, node: Any, pointer: str) -> Any:
        if not isinstance(node, Mapping) or node.get("x-verbatim", False) is not False:
            return node
        made: dict[str, Any] = {}
        for keyword, value in node.items():
            at = join(pointer, keyword)
            if keyword in MAP_KEYWORDS and isinstance(value, Mapping):
                made[keyword] = {name: self.node(part, join(at, name)) for name, part in value.items()}
            elif keyword in LIST_KEYWORDS and isinstance(value, list):
                made[keyword] = [self.node(part, join(at, index)) for index, part in enumerate(value)]
            elif keyword in SCHEMA_KEYWORDS:
                made[keyword] = self.node(value, at)
            else:
                made[keyword] = value
        if "enum" in made:
            return self._listed(made, pointer)
        if "anyOf" in made:
            return self._alternatives(made, pointer)
        if "patternProperties" in made:
            made = self._named_by_pattern(made)
        if "properties" in made or "patternProperties" in made:
            return self._named(made, pointer)
        return self._matched(made, pointer) if "pattern" in made else made

    def _listed(self, node: dict[str, Any], pointer: str) -> Mapping[str, Any]:
        kept = [value for value in node["enum"] if self._parts.has(value)]
        if len(kept) == len(node["enum"]):
            return node
        left_out = [value for value in node["enum"] if not self._parts.has(value)]
        if not any(value is not None for value in kept):
            return self._nothing(pointer, f"the model's tokenizer cannot spell {shown(left_out[0])}")
        for value in left_out:
            if not RARE.search(json.dumps(value, ensure_ascii=False)):
                raise _refused(f"the model's tokenizer cannot spell {shown(value)}", join(pointer, "enum"))
        self.has_changed = True
        return {**node, "enum": kept}

    def _alternatives(self, node: dict[str, Any], pointer: str) -> Mapping[str, Any]:
        """What may only be null for want of bytes is refused: that it is null would say something of the page."""
        members = {join(pointer, "anyOf", index): member for index, member in enumerate(node["anyOf"])}
        lost = [place for place in members if place in self.emptied]
        others = [member for place, member in members.items() if place not in lost and member not in _NULLS]
        return node if others or not lost else self._nothing(pointer, self.emptied[lost[0]])

    def _named(self, node: dict[str, Any], pointer: str) -> Mapping[str, Any]:
        known = node.get("properties", {})
        lost = [name for name in known if not self._parts.has(name)]
        for name in lost:
            why = f"the model's tokenizer cannot spell the name {shown(name)}"
            if name in node.get("required", ()):
                return self._nothing(pointer, why)
            if not RARE.search(name):
                raise _refused(why, join(pointer, "properties", name))
        if not lost:
            return node
        self.has_changed = True
        return {**node, "properties": {name: part for name, part in known.items() if name not in lost}}

    def _named_by_pattern(self, node: dict[str, Any]) -> dict[str, Any]:
        """Names of a pattern that nothing spells are none: the object does without, or has too few."""
        patterns = node["patternProperties"]
        kept = {pattern: part for pattern, part in patterns.items() if not self._spells_nothing(pattern)}
        if len(kept) == len(patterns):
            return node
        self.has_changed = True
        rest = {keyword: value for keyword, value in node.items() if keyword != "patternProperties"}
        if kept:
            return {**rest, "patternProperties": kept}
        # Where no name is left, an object that asks for one has no value: llguidance, or satisfiability, says so.
        return rest

    def _spells_nothing(self, pattern: str) -> bool:
        spelt = self._parts.pattern
        if spelt is None or not _REACHES_BEYOND_ASCII.search(pattern):
            return False
        why = probe.refusal({"type": "string", "allOf": [{"pattern": pattern}, {"pattern": spelt}]})
        return why is not None and "nsatisfiable" in why

    def _matched(self, node: dict[str, Any], pointer: str) -> Mapping[str, Any]:
        """Where a pattern may ask for what is not spelt, the texts that are."""
        patterns = [node["pattern"], *(part["pattern"] for part in node.get("allOf", ()) if "pattern" in part)]
        for pattern in patterns:
            if self._spells_nothing(pattern):
                what = f"the model's tokenizer cannot spell a text of the pattern {shown(pattern)}"
                return self._nothing(pointer, what)
        spelt = self._parts.pattern
        if spelt is None or not any(map(_REACHES_BEYOND_ASCII.search, patterns)):
            return node
        narrowed = {**node, "allOf": [*node.get("allOf", ()), {"pattern": spelt}]}
        why = probe.refusal(narrowed)
        if why and "nsatisfiable" in why:
            return self._nothing(pointer, "the model's tokenizer cannot spell a text of this pattern and length")
        self.has_changed |= not why
        return node if why else narrowed

    def _nothing(self, pointer: str, why: str) -> Mapping[str, Any]:
        self.emptied[pointer] = why
        self.has_changed = True
        return _NOTHING


def _refused(why: str, pointer: str) -> SchemaRefused:
    return SchemaRefused(why, pointer=pointer, code="SCHEMA_UNSATISFIABLE", hint="drop it, or take another model")
