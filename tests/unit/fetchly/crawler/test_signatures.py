"""MinHash signatures against the likeness that they estimate, counted out."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchly.crawler.signatures import PLACES, RUN_WORDS, bands_of, likeness, signature_of, text_signature
from fetchly.goods import Block, BlockKind, Document

GOLDEN = "d7887b08e127da5da0211603"


def signed(text: str) -> bytes:
    signature = text_signature(text)
    assert signature is not None
    return signature


def counted(one: list[str], other: list[str]) -> float:
    """The share of the runs in either text that are in both."""

    def runs(words: list[str]) -> set[tuple[str, ...]]:
        return {tuple(words[start : start + RUN_WORDS]) for start in range(max(1, len(words) - RUN_WORDS + 1))}

    return len(runs(one) & runs(other)) / len(runs(one) | runs(other))


def changed(words: list[str], changes: int, rng: random.Random) -> list[str]:
    changed = list(words)
    for place in rng.sample(range(len(words)), changes):
        changed[place] = f"new{rng.randrange(10**9)}"
    return changed


def test_signatures_estimate_the_likeness_of_texts_of_every_length_and_share() -> None:
    rng = random.Random(1)
    errors = []
    for _ in range(30):
        words = [f"word{rng.randrange(300)}" for _ in range(rng.randrange(4, 500))]
        other = changed(words, rng.randrange(1 + len(words) // 8), rng)
        errors.append(likeness(signed(" ".join(words)), signed(" ".join(other))) - counted(words, other))
    # Four standard deviations of one estimate, and of the mean of all of them, at their worst (likeness 1/2).
    assert max(map(abs, errors)) <= 4 * 0.5 / math.sqrt(PLACES)
    assert abs(sum(errors) / len(errors)) <= 4 * 0.5 / math.sqrt(PLACES * len(errors))


def test_texts_with_nothing_in_common_are_not_alike() -> None:
    one, other = (" ".join(f"{side}{number}" for number in range(400)) for side in "ab")
    assert likeness(signed(one), signed(other)) <= 0.02


@settings(max_examples=20)
@given(st.text(min_size=1, max_size=200))
def test_case_and_punctuation_make_no_difference(text: str) -> None:
    signature = text_signature(text)
    assert text_signature(f"-- {text.casefold()} !") == signature
    if signature is not None:
        assert likeness(signature, signature) == 1.0
        assert len(signature) == 4 * PLACES


def test_signatures_are_the_same_on_every_machine() -> None:
    assert signed("The quick brown fox jumps over the lazy dog.")[:12].hex() == GOLDEN


def test_a_text_without_a_word_has_none() -> None:
    assert text_signature(" -- \n …") is None
    assert signature_of(Document(None, None, None, "", ())) is None


def test_scripts_without_spaces_are_compared_by_the_character() -> None:
    rng = random.Random(2)
    text = "".join(chr(0x4E00 + rng.randrange(2000)) for _ in range(400))
    other = f"{text[:200]}変{text[201:]}"
    assert likeness(signed(text), signed(other)) > 0.9
    assert likeness(signed(text), signed(text[::-1])) < 0.1


def document(*blocks: tuple[BlockKind, str]) -> Document:
    made = tuple(Block(kind, text, text, "p", 0, len(text)) for kind, text in blocks)
    return Document(None, None, None, "\n".join(text for _, text in blocks), made)


def test_menus_count_only_where_there_is_nothing_else() -> None:
    menu: tuple[BlockKind, str] = ("other", "Home News Sport Contact " * 30)
    one = document(menu, ("paragraph", "Honey from the heath costs four euro"))
    other = document(menu, ("paragraph", "A jar of plum jam from last year"))
    assert likeness(signature_of(one) or b"", signature_of(other) or b"") < 0.1
    assert likeness(signature_of(document(menu)) or b"", signature_of(document(menu)) or b"") == 1.0


@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.85, 0.95, 1.0])
def test_texts_at_the_threshold_share_a_band(threshold: float) -> None:
    rng = random.Random(3)
    missed = 0
    for _ in range(40):
        places = [rng.randbytes(4) for _ in range(PLACES)]
        differ = rng.sample(range(PLACES), PLACES - math.ceil(threshold * PLACES))
        other = [rng.randbytes(4) if place in differ else value for place, value in enumerate(places)]
        one_bands, other_bands = bands_of(b"".join(places), threshold), bands_of(b"".join(other), threshold)
        missed += not set(one_bands) & set(other_bands)
    assert missed <= 1


def test_unlike_texts_share_few_bands_at_a_high_threshold() -> None:
    rng = random.Random(4)
    shared = 0
    for _ in range(200):
        places = [rng.randbytes(4) for _ in range(PLACES)]
        other = [value if rng.random() < 0.5 else rng.randbytes(4) for value in places]
        shared += bool(set(bands_of(b"".join(places), 0.95)) & set(bands_of(b"".join(other), 0.95)))
    assert shared <= 2
