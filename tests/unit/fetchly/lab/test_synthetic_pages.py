"""Invented pages: what their answers promise must hold on the page, as our own reader sees it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import jsonschema_rs
import pytest

from fetchly.document.reader import read_document
from fetchly.extraction.page_context import page_context
from fetchly.extraction.values import convert
from fetchly.goods import Document, Page
from fetchly.lab.synthetic.bodies import LISTED
from fetchly.lab.synthetic.catalogue import all_domains, all_fields, page_kinds
from fetchly.lab.synthetic.entries import make_entry
from fetchly.lab.synthetic.layouts import LAYOUTS
from fetchly.lab.synthetic.listings import LISTINGS, Listing, table
from fetchly.lab.synthetic.markup import Habits, Markup
from fetchly.lab.synthetic.pages import SyntheticPage, generate
from fetchly.lab.synthetic.words import LANGUAGES, words_of
from fetchly.lab.synthetic.writer import Writer
from fetchly_llm.grammar.lint import lint

READ = 200
"""Pages that are read as documents; the others are counted only."""
COUNTED = 400


@cache
def page(seed: int) -> SyntheticPage:
    return generate(seed)


@cache
def document(seed: int) -> Document:
    made = page(seed)
    return read_document(Page(made.url, made.url, 200, (), made.html, "text/html"))


def urls(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from urls(part)
    elif isinstance(value, str) and value.startswith("https://"):
        yield value


def path_of(pointer: str) -> str:
    """The dotted name of a field, without places in lists."""
    return ".".join(part for part in pointer.split("/")[1:] if not part.isdigit())


def test_a_seed_makes_the_same_page_in_any_process() -> None:
    program = (
        "from fetchly.lab.synthetic.pages import generate; import hashlib, sys\n"
        "print(*(hashlib.sha256(repr(generate(seed)).encode()).hexdigest() for seed in range(12)))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": salt}, capture_output=True, check=True
        ).stdout
        for salt in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert len(set(runs[0].split())) == 12


def test_every_source_stands_within_one_block() -> None:
    lost = [
        (seed, pointer, text)
        for seed in range(READ)
        for pointer, text in page(seed).sources.items()
        if not any(text in block.text for block in document(seed).blocks)
    ]
    assert lost == []


def test_every_url_is_a_link_or_picture_of_the_page() -> None:
    count = 0
    for seed in range(READ):
        known = {link.url for link in document(seed).links}
        wanted = list(urls(page(seed).expected))
        assert set(wanted) <= known, seed
        count += len(wanted)
    assert count > 100


def test_answers_obey_schemas_that_the_linter_accepts() -> None:
    for seed in range(COUNTED):
        made = page(seed)
        jsonschema_rs.validate(made.schema, made.expected, validate_formats=True)
    for seed in range(0, COUNTED, 5):
        assert [f.text() for f in lint(page(seed).schema, "strict") if f.severity != "notice"] == [], seed


def test_the_sources_mean_the_answers() -> None:
    """What the model would write, a span of the page for each value, is turned into the right record."""

    def decoded(value: Any, pointer: str) -> Any:
        if isinstance(value, dict):
            return {key: decoded(part, f"{pointer}/{key}") for key, part in value.items()}
        if isinstance(value, list):
            return [decoded(part, f"{pointer}/{at}") for at, part in enumerate(value)]
        if isinstance(value, str) and value in links:
            return links[value]
        written = pointer in made.sources and all_fields()[made.concepts[path_of(pointer)]].kind not in (
            "choice",
            "flag",
        )
        return made.sources[pointer] if written else value

    for seed in range(0, READ, 2):
        made = page(seed)
        links = {link.url: link.id for link in document(seed).links}
        got = convert(made.schema, decoded(made.expected, ""), page_context(document(seed)))
        assert got.value == made.expected, seed


def test_what_is_missing_has_no_value_under_its_label() -> None:
    asked = unknown = 0
    for seed in range(READ):
        made = page(seed)
        if made.many:
            continue
        lang = made.lang[:2]
        used = {made.labels[key] for key in made.labels}
        marks = {mark.strip(" .") for mark in words_of(lang).banks["unknown"]}
        for name in made.missing:
            asked += 1
            known = all_fields()[made.concepts[name]]
            for label in known.labels.get(lang, ()):
                # a label that another field of the page goes by says nothing about this one
                if label in used and label != made.labels.get(known.key):
                    continue
                for block in document(seed).blocks:
                    after = re.match(rf"{re.escape(label)}(?: \([^)]*\))? ?: ?(.*)", block.line.lstrip("-# "))
                    if after:
                        unknown += 1
                        assert after[1].strip(" .;|·") in marks, (seed, name, block.line)
    assert asked > 100
    assert unknown > 3


def test_missing_fields_are_null_and_usable_ones_are_not() -> None:
    for seed in range(COUNTED):
        made = page(seed)
        top = [name for name in made.missing if "." not in name]
        assert all(made.expected.get(name) is None for name in top), seed
        for name in made.usable:
            head, _, rest = name.partition(".")
            assert made.expected[head] not in (None, [], {}), (seed, name)
            assert not rest or any(row.get(rest.partition(".")[0]) is not None for row in made.expected[head]), (
                seed,
                name,
            )
        assert made.usable, seed


def test_no_slot_stays_open() -> None:
    for lang in LANGUAGES:
        words = words_of(lang)
        writer = Writer(Random(lang), words, words.locales[0])
        templates = [
            text for bank in (*words.banks.values(), *words.clauses.values(), *words.ui.values()) for text in bank
        ]
        assert [text for text in templates if "{" in writer.fill(text)] == []
    assert not [seed for seed in range(COUNTED) if re.search(rb"\{[A-Za-z_]+2?\}", page(seed).html)]


def test_all_languages_have_the_same_words() -> None:
    english = words_of("en")
    for lang in LANGUAGES:
        words = words_of(lang)
        assert words.banks.keys() == english.banks.keys()
        assert words.clauses.keys() == english.clauses.keys() == {domain.theme for domain in all_domains().values()}
        assert words.ui.keys() == english.ui.keys()
        assert {k: v.keys() for k, v in words.choices.items()} == {k: v.keys() for k, v in english.choices.items()}
        assert words.say.keys() - {"any"} <= all_fields().keys()
        assert all("{value}" in text for texts in words.say.values() for text in texts)


def test_the_catalogue_names_only_what_exists() -> None:
    fields, domains = all_fields(), all_domains()
    for domain in domains.values():
        keys = (domain.heading, *domain.fields, *domain.list_fields)
        assert set(keys) <= fields.keys(), domain.name
        assert all(set(group.members) <= set(domain.fields) for group in domain.groups), domain.name
        assert not fields[domain.heading].part_of
    for known in fields.values():
        assert bool(known.make) != bool(known.part_of), known.key
        assert not known.part_of or known.part_of in fields
        assert known.kind != "rows" or known.make[1] in domains
        shown_alone = known.kind in ("image", "prose") or known.key == "link" or known.part_of
        assert shown_alone or known.labels.keys() == set(LANGUAGES), known.key
    assert fields.keys() >= LISTED


def test_pages_are_various() -> None:
    made = [page(seed) for seed in range(COUNTED)]
    assert {(p.domain, p.many) for p in made} == set(page_kinds())
    assert {p.lang[:2] for p in made} == set(LANGUAGES)
    assert {name for p in made for name in p.layouts} >= LAYOUTS.keys() | LISTINGS.keys() | {
        "hero",
        "list_block",
        "long_text",
    }
    assert 0.35 < sum(bool(p.jsonld_types) for p in made) / COUNTED < 0.55
    assert any(p.structured and not p.jsonld_types for p in made)
    assert 0.3 < sum(bool(p.missing) for p in made) / COUNTED < 0.8
    kinds = Counter(all_fields()[key].kind for p in made for key in p.concepts.values())
    assert kinds.keys() == {known.kind for known in all_fields().values()}
    names = {name for p in made for name in p.concepts}
    assert len(names) > 1000
    assert sum(b'<meta charset="windows-1252">' in p.html for p in made) > 5


@pytest.mark.parametrize("lang", LANGUAGES)
def test_sentences_seldom_come_twice(lang: str) -> None:
    words = words_of(lang)
    writer = Writer(Random(lang), words, words.locales[0])
    sentences = Counter(writer.sentence(theme) for theme in words.clauses for _ in range(40))
    assert sum(count - 1 for count in sentences.values()) / sentences.total() < 0.03


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_shared_cell_tells_every_row_of_its_run(lang: str) -> None:
    """A table with rowspan, or with rows that name a group, says the shared value once; the entries have it each."""
    words = words_of(lang)
    seen = set()
    for seed in range(12):
        writer = Writer(Random(seed), words, words.locales[0])
        domain = all_domains()["job"]
        entries = [make_entry(domain, ("employer", "salary"), writer, "x.example") for _ in range(5)]
        runs = tuple(
            type(entry)(domain, {**entry.values, "employer": entries[0 if at < 3 else 3].values["employer"]})
            for at, entry in enumerate(entries)
        )
        markup = Markup(writer, Habits(microdata=False, no_break=False, colon=":"))
        html = table(markup, Listing(runs, ("employer", "salary"), "employer", ""))
        read = read_document(Page("x", None, 200, (), html.encode(), "text/html", "utf-8"))
        if 'rowspan="3"' in html:
            seen.add("rowspan")
            rows = [block.line for block in read.blocks if runs[0].values["employer"].text in block.line]
            assert len(rows) == 3
        elif "colspan" in html:
            seen.add("row")
            assert read.text.count(runs[0].values["employer"].text) == 1
    assert seen == {"rowspan", "row"}


def test_marks_for_machines_never_speak_of_the_rows_within_an_entry() -> None:
    """Reviews and staff have names of their own: as microdata of the page they would contradict it."""
    named = 0
    for seed in range(COUNTED):
        made = page(seed)
        if made.structured and not made.jsonld_types:
            lines = [b.line for b in document(seed).blocks if b.kind == "data" and re.match(r"\w+ name: ", b.line)]
            assert len(lines) <= 1, (seed, lines)
            named += len(lines)
    assert named > 5
