"""The JSON Schema test suite (mandatory files of 2020-12 and draft-07) against prepared schemas and llguidance."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar.findings import TYPE_IMPLIED, Mode
from fetchly_llm.grammar.prepare import prepare
from tests.support.schema_suite import ByteMatcher, Case, cases, resolves
from tests.support.shared_data import shared_path

DRAFTS = ("draft2020-12", "draft7")
# What was measured with llguidance 1.9.1: schemas compiled and valid instances accepted in strict mode, and schemas
# that check mode compiles. Floors: a better desugaring may raise them.
COMPILED = {"draft2020-12": 298, "draft7": 217}
VALID_ACCEPTED = {"draft2020-12": 422, "draft7": 312}
CHECKED = {"draft2020-12": 348, "draft7": 234}


@dataclass(slots=True)
class Tally:
    """What became of the schemas and instances of one folder of the suite."""

    schemas: int = 0
    compiled: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    valid_accepted: int = 0
    valid_refused: int = 0
    valid_refused_type_implied: int = 0
    invalid_refused: int = 0
    invalid_accepted: list[str] = field(default_factory=list)
    invalid_unexplained: list[str] = field(default_factory=list)
    not_compiled: list[str] = field(default_factory=list)
    unlocated: list[str] = field(default_factory=list)
    wrongly_unsatisfiable: list[str] = field(default_factory=list)

    def line(self) -> str:
        """The counts in one line."""
        codes = ", ".join(f"{code} {count}" for code, count in sorted(self.refused.items()))
        return (
            f"{self.schemas} schemas: {self.compiled} compiled, refused: {codes}; valid instances: "
            f"{self.valid_accepted} accepted, {self.valid_refused} refused ({self.valid_refused_type_implied} of them "
            f"where the schema names no type); invalid: {self.invalid_refused} refused, "
            f"{len(self.invalid_accepted)} accepted"
        )


@cache
def tally(draft: str, folder: str, mode: Mode) -> Tally:
    result = Tally()
    for case in cases(_suite(), draft, folder):
        _run(case, mode, result)
    return result


def _suite() -> Path:
    shared = shared_path()
    if shared is None or not (shared / "data" / "json-schema-test-suite").is_dir():
        pytest.skip("the JSON Schema test suite is not beside this checkout")
    return shared / "data" / "json-schema-test-suite"


def _run(case: Case, mode: Mode, result: Tally) -> None:
    result.schemas += 1
    try:
        prepared = prepare(case.schema, mode=mode)
    except SchemaRefused as refusal:
        result.refused[refusal.code] += 1
        if not resolves(case.schema, refusal.pointer):
            result.unlocated.append(f"{case.name}: {refusal.pointer}")
        if refusal.code == "SCHEMA_UNSATISFIABLE" and any(example.valid for example in case.examples):
            result.wrongly_unsatisfiable.append(f"{case.name}: {refusal}")
        return
    matcher = ByteMatcher(prepared.enforced, prepared.allowed_escapes)
    if matcher.refusal:
        result.not_compiled.append(f"{case.name}: {matcher.refusal[:200]}")
        return
    result.compiled += 1
    is_implied = any(finding.code == TYPE_IMPLIED for finding in prepared.findings)
    for example in case.examples:
        is_accepted = matcher.accepts(example.instance)
        if example.valid:
            result.valid_accepted += is_accepted
            result.valid_refused += not is_accepted
            result.valid_refused_type_implied += is_implied and not is_accepted
        elif is_accepted:
            result.invalid_accepted.append(f"{case.name}: {example.description}")
            if not prepared.residual:
                result.invalid_unexplained.append(f"{case.name}: {example.description}")
        else:
            result.invalid_refused += 1


@pytest.fixture(params=DRAFTS)
def draft(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_strict_mode_accepts_no_invalid_instance(draft: str) -> None:
    result = tally(draft, "", "strict")
    print(f"\n{draft} strict: {result.line()}")
    assert result.invalid_accepted == []
    assert result.invalid_refused > 0


def test_every_refusal_points_into_the_schema(draft: str) -> None:
    result = tally(draft, "", "strict")
    assert sum(result.refused.values()) > 0
    assert result.unlocated == []
    assert tally(draft, "", "check").unlocated == []


def test_llguidance_compiles_whatever_is_prepared(draft: str) -> None:
    assert tally(draft, "", "strict").not_compiled == []
    assert tally(draft, "", "check").not_compiled == []


def test_no_satisfiable_schema_is_called_unsatisfiable(draft: str) -> None:
    assert tally(draft, "", "strict").wrongly_unsatisfiable == []


def test_as_many_schemas_and_instances_pass_as_were_measured(draft: str) -> None:
    result = tally(draft, "", "strict")
    assert result.compiled >= COMPILED[draft]
    assert result.valid_accepted >= VALID_ACCEPTED[draft]


def test_check_mode_names_a_residual_keyword_wherever_it_accepts_an_invalid_instance(draft: str) -> None:
    result = tally(draft, "", "check")
    print(f"\n{draft} check: {result.line()}")
    assert result.invalid_unexplained == []
    assert result.compiled >= CHECKED[draft]


def test_formats_are_counted_apart(draft: str) -> None:
    result = tally(draft, "optional/format/", "strict")
    print(f"\n{draft} optional/format: {result.line()}")
    assert result.refused == Counter()
    assert result.invalid_unexplained == []
    exact = ("format/date:", "format/time:", "format/date-time:", "format/ipv4:", "format/uuid:")
    assert [name for name in result.invalid_accepted if any(mark in name for mark in exact)] == []
