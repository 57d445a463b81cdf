"""Our scorer against the one that lies beside the shared sets: the same counts, to the last digit."""

import gzip
import importlib.util
import json
import random
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly.lab import folding, quantities
from fetchly.lab.dataset import Dataset, GoldRecord
from fetchly.lab.scoring import score_record
from fetchly.lab.visible import check_texts
from tests.support.shared_data import shared_path

SETS = (
    "recipes", "articles", "wcxb", "products", "swde", "contacts", "court_lists", "dates", "realestate", "meetings",
    "events", "fragments",
)  # fmt: skip
PAGES = 18


@pytest.fixture(scope="module")
def theirs() -> ModuleType:
    shared = shared_path()
    if shared is None:
        pytest.skip("the shared scorer is not beside this checkout")
    spec = importlib.util.spec_from_file_location("shared_score", shared / "eval" / "score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def opened(name: str) -> Dataset:
    shared = shared_path()
    if shared is None:
        pytest.skip("the shared pages are not beside this checkout")
    return Dataset.open(shared / "data" / name)


def raw(dataset: Dataset) -> dict[str, Any]:
    lines = (dataset.folder / "dev.jsonl").read_text("utf-8").split("\n")
    return {record["id"]: record for record in map(json.loads, filter(None, lines))}


def bent(value: Any, chance: random.Random) -> Any:
    """A prediction that is wrong in the ways that predictions are: left out, cut, doubled, reordered, another type."""
    draw = chance.random()
    if isinstance(value, dict):
        return {key: bent(part, chance) for key, part in value.items()}
    if isinstance(value, list):
        parts = [bent(part, chance) for part in value]
        chance.shuffle(parts)
        return parts[: len(parts) // 2] if draw < 0.3 else parts + parts[:1] if draw < 0.5 else parts
    if draw < 0.1:
        return None
    if isinstance(value, str):
        ways = (
            value.upper(),
            value[: -len(value) // 8],
            f"{value} and more",
            [value, "else"],
            value.replace(" ", "  "),
        )
        return ways[int(draw * 10)] if draw < 0.5 else value
    return f"{value} min" if draw < 0.3 else value


def predictions(record: GoldRecord) -> Iterator[Any]:
    yield dict(record.expected)
    yield None
    for seed in range(3):
        yield bent(dict(record.expected), random.Random(f"{record.id} {seed}"))


@pytest.mark.parametrize("name", SETS)
def test_counts_of_real_answers_and_of_bent_ones_are_theirs(theirs: ModuleType, name: str) -> None:
    dataset = opened(name)
    answers = raw(dataset)
    for record in dataset.records(PAGES):
        schema = dataset.schema(record).json
        for predicted in predictions(record):
            expected = theirs.score_record(answers[record.id], predicted, schema)
            counts = score_record(record, predicted, schema)
            found = {field: [count.right, count.wrong, count.missed] for field, count in counts.items()}
            assert found == expected, record.id


@pytest.mark.parametrize("name", ["recipes", "articles", "products", "contacts"])
def test_texts_that_are_not_on_the_page_are_theirs(theirs: ModuleType, name: str) -> None:
    dataset = opened(name)
    for record in dataset.records(3):
        file = dataset.folder / "html" / f"{record.id}.html.gz"
        for predicted in (dict(record.expected), bent(dict(record.expected), random.Random(record.id))):
            known = {key: predicted.get(key) for key in dataset.schema(record).json["properties"]}
            check = check_texts(known, dataset.schema(record).json, gzip.decompress(file.read_bytes()))
            assert (check.invented, check.texts) == theirs.not_on_page(known, file), record.id


PIECES = st.lists(
    st.sampled_from(
        [
            "12", "3", "1.234", "1,5", "2020", "/", "-", ".", ":", " ", ",", "½", "march", "märz", "de", "h", "min",
            "pt1h", "€", "$", "t10", "年", "5月", "9日", "to", "1/2", "st", "’", "\u200b", "x",
        ]
    ),
    max_size=8,
).map("".join)  # fmt: skip


@given(text=st.one_of(PIECES, st.text(max_size=20)))
def test_readings_of_any_text_are_theirs(theirs: ModuleType, text: str) -> None:
    folded = theirs.norm(text)
    assert folding.fold(text) == folded
    assert folding.squash(folded) == theirs.squash(folded)
    assert quantities.first_number(folded) == theirs.number(folded)
    assert quantities.minutes(folded) == theirs.minutes(folded)
    assert quantities.first_date(folded) == theirs.date(folded)
    assert quantities.amounts(folded) == theirs.amounts(folded)
    assert quantities.currencies(folded) == theirs.currencies(folded)
    assert folding.token_counts(folded) == theirs.tokens(folded)
