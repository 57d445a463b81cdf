"""An enforced schema and a source text in; a compiled grammar out, checked to have a first token, cached."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from fetchly_llm.errors import ModelUnsupported, RequestInvalid, SchemaRefused
from fetchly_llm.grammar import bitmask
from fetchly_llm.grammar.free_text import FreeText
from fetchly_llm.grammar.lark import LarkWriter, layout, standalone
from fetchly_llm.grammar.matcher import Matcher
from fetchly_llm.grammar.refusal import locate
from fetchly_llm.grammar.repetition import RepetitionRule
from fetchly_llm.grammar.satisfiability import refuse_unsatisfiable, satisfiable
from fetchly_llm.grammar.schema_graph import SchemaGraph
from fetchly_llm.grammar.shapes import ShapeTable
from fetchly_llm.grammar.spans import SpanIndex, escape
from fetchly_llm.grammar.unspellable import SpellableParts
from fetchly_llm.grammar.vocabulary import Vocabulary

# A suffix automaton over the words of 120 kB needs about 3 million units to build and 2 million for the first mask at a
# span's start; a unit costs 20 to 70 ns.
_INITIAL_FUEL = 50_000_000
_STEP_FUEL = 20_000_000


def parser_limits(has_source: bool) -> LLParserLimits:
    """llguidance's own limits, raised where a source takes part; its errors without a dump of schema and text."""
    if not has_source:
        return LLParserLimits(verbose_errors=False)
    return LLParserLimits(initial_lexer_fuel=_INITIAL_FUEL, step_lexer_fuel=_STEP_FUEL, verbose_errors=False)


class Grammar:
    """A compiled grammar, shared by any number of matchers. `text_tokens` has the bits of the tokens that are text."""

    def __init__(
        self,
        template: LLMatcher,
        vocabulary: Vocabulary,
        eos_token_ids: tuple[int, ...],
        rule: RepetitionRule | None = None,
        source_length: int = 0,
    ) -> None:
        self.vocabulary = vocabulary
        self.vocab_size = len(vocabulary)
        self.eos_token_ids = eos_token_ids
        self.rule = rule
        self.source_length = source_length
        self.text_tokens = vocabulary.text_tokens
        self._template = template
        self._lock = threading.Lock()

    def matcher(self) -> Matcher:
        """A new sequence, nothing accepted. A few microseconds."""
        return Matcher(self)

    def copy_template(self) -> LLMatcher:
        """llguidance's matcher at the start, for `Matcher`."""
        with self._lock:
            return self._template.deep_copy()


class GrammarCompiler:
    """Compiles for one tokenizer. `vocab_size` is the width of the logits and may exceed the tokenizer's vocabulary.

    `tokenizer_json` is the text of a Hugging Face tokenizer.json. Raises ModelUnsupported where llguidance cannot take
    it or `vocab_size` is too small. The last `cache_entries` grammars are kept, as long as their sources have no more
    than `cache_characters` in all (a grammar with its lexer states takes about 0.3 kB for each). Thread-safe.
    """

    def __init__(
        self,
        tokenizer_json: str,
        eos_token_ids: Sequence[int],
        vocab_size: int,
        *,
        cache_entries: int = 16,
        cache_characters: int = 300_000,
        time_limit_s: float = 20.0,
    ) -> None:
        if not tokenizer_json.lstrip().startswith("{"):
            raise RequestInvalid("tokenizer_json must be the text of a tokenizer.json, not its name or path")
        if not eos_token_ids or not all(0 <= token < vocab_size for token in eos_token_ids):
            raise RequestInvalid(f"end-of-sequence ids {list(eos_token_ids)} are not within 0..{vocab_size - 1}")
        try:
            self._tokenizer = LLTokenizer(tokenizer_json, n_vocab=vocab_size, eos_token=list(eos_token_ids))
        except ValueError as error:
            raise ModelUnsupported(f"the grammar library cannot use this tokenizer: {error}") from error
        self._eos = tuple(dict.fromkeys(eos_token_ids))
        self._vocabulary = Vocabulary(self._tokenizer, self._eos)
        self._spellable = SpellableParts(self._vocabulary)
        self._time_limit_s = time_limit_s
        self._cache: OrderedDict[bytes, Grammar] = OrderedDict()
        self._cache_entries = cache_entries
        self._cache_characters = cache_characters
        self._lock = threading.Lock()

    def compile(self, enforced: Mapping[str, Any], source: str = "", *, allowed_escapes: str | None = None) -> Grammar:
        """The grammar of `enforced` in our layout, its `x-verbatim` strings being spans of `source`.

        `enforced` is a schema that llguidance takes whole, with closed objects and finite bounds. `allowed_escapes` are
        the letters that may follow a backslash in strings, None for all. Raises SchemaRefused, located, for a schema
        that cannot be compiled, is too large, takes longer than the time limit, or has no value that can be spelt.
        """
        graph = SchemaGraph(enforced)
        has_source = graph.is_verbatim("")
        key = _digest(enforced, source if has_source else None, allowed_escapes)
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        grammar = self._compile_in_time(graph, source if has_source else None, allowed_escapes)
        with self._lock:
            self._cache[key] = grammar
            self._trim_cache()
        return grammar

    def free_text(self) -> FreeText:
        """A new sequence without a grammar."""
        return FreeText(self._vocabulary, self._eos)

    @property
    def spellings(self) -> Sequence[bytes]:
        """The bytes of every id; none for special tokens and ids above the real vocabulary."""
        return self._vocabulary.spellings

    def _trim_cache(self) -> None:
        """Forget what was used longest ago until both limits hold; the latest grammar stays whatever its size."""
        characters = sum(grammar.source_length for grammar in self._cache.values())
        while len(self._cache) > 1 and (len(self._cache) > self._cache_entries or characters > self._cache_characters):
            characters -= self._cache.popitem(last=False)[1].source_length

    def _compile_in_time(self, graph: SchemaGraph, source: str | None, allowed_escapes: str | None) -> Grammar:
        """`_compile` under the time limit. A thread cannot be killed: a late one runs on until llguidance's limits."""
        outcome = _Outcome()

        def work() -> None:
            try:
                outcome.grammar = self._compile(graph, source, allowed_escapes)
            except BaseException as error:
                outcome.error = error

        thread = threading.Thread(target=work, name="grammar-compiler", daemon=True)
        thread.start()
        thread.join(self._time_limit_s)
        if outcome.error is not None:
            raise outcome.error
        if outcome.grammar is None:
            raise SchemaRefused(
                f"compiling the schema took longer than {self._time_limit_s:g} s",
                code="SCHEMA_TOO_LARGE",
                hint="use fewer alternatives, shorter patterns, smaller enums",
            )
        return outcome.grammar

    def _compile(self, graph: SchemaGraph, source: str | None, allowed_escapes: str | None) -> Grammar:
        index = SpanIndex(source or "", lambda character: self._vocabulary.can_spell(escape(character)))
        spellable = self._spellable.of(graph.mapping(""))
        if spellable.schema is not graph.mapping(""):
            graph = SchemaGraph(spellable.schema)
        productive = satisfiable(graph, index)
        refuse_unsatisfiable(graph, productive, spellable.emptied)
        shapes = ShapeTable(graph, productive)
        if shapes.conflicts:
            raise shapes.conflicts[0].refusal()
        if source is not None:
            writer = LarkWriter(graph, index, productive, allowed_escapes, shapes.unique)
            text = LLMatcher.grammar_from_lark(writer.write())
        else:
            schema: Mapping[str, Any] = standalone(graph, "", shapes.unique) if shapes.unique else graph.mapping("")
            schema = {keyword: value for keyword, value in schema.items() if keyword != "x-guidance"}
            text = LLMatcher.grammar_from_json_schema(schema, overrides=layout(allowed_escapes))
        rule = RepetitionRule(shapes, index, self._vocabulary) if shapes.has_arrays else None
        limits = parser_limits(source is not None)
        template = LLMatcher(self._tokenizer, text, log_level=0, limits=limits)
        if template.is_error():
            raise locate(template.get_error(), graph, self._tokenizer, layout(allowed_escapes))
        self._refuse_without_start(template)
        return Grammar(template, self._vocabulary, self._eos, rule, len(source or ""))

    def _refuse_without_start(self, template: LLMatcher) -> None:
        """One mask now, so that a grammar without a first token is a refusal and not an empty record."""
        row = bitmask.allocate(1, self._tokenizer.vocab_size)[0]
        template.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
        row &= self._vocabulary.text_tokens
        if template.is_error() or not row.any():
            reason = template.get_error().splitlines()
            raise SchemaRefused(
                f"no value can even be begun under this schema{': ' + reason[0] if reason else ''}",
                code="SCHEMA_UNSATISFIABLE",
                hint="look for references that lead round in a circle and for contradicting keywords",
            )


@dataclass(slots=True)
class _Outcome:
    """What the compiling thread leaves behind."""

    grammar: Grammar | None = None
    error: BaseException | None = None


def _digest(schema: Mapping[str, Any], source: str | None, allowed_escapes: str | None) -> bytes:
    """Key of the cache. The order of keys counts: it is the layout."""
    parts = (json.dumps(schema), json.dumps(source), json.dumps(allowed_escapes))
    return hashlib.sha256("\n".join(parts).encode()).digest()
