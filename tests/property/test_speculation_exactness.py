"""Drafts change no byte: every source alone, in pairs and all together writes what plain decoding writes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fetchly_llm.errors import OutputLimit, SchemaRefused
from fetchly_llm.request import GenerationRequest, SamplingParams
from tests.support.drafters import ADVERSARIES
from tests.support.engine_pair import SCHEMAS, EnginePair, ended_by_eos, engine_pair
from tests.support.verbatim_schemas import Schema, schemas, sources

TEMPERATURES = (0.0, 0.7, 2.0)
MODES = ("deferred", "fused")
SETTINGS = tuple((family, width) for family in ("llama", "qwen3") for width in (4, 8, 13))
BUILT_IN = ("forced", "lookup", "streams")
EVERYTHING = (*ADVERSARIES, *BUILT_IN)
some = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module", params=SETTINGS, ids=lambda p: f"{p[0]}-W{p[1]}")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnginePair]:
    family, width = request.param
    made = engine_pair(tmp_path_factory.mktemp(family), family, width, seed=SETTINGS.index(request.param))
    yield made
    made.close()


def requests(pair: EnginePair, draft: tuple[str, ...], count: int, mode: str = "") -> Iterator[GenerationRequest]:
    """`count` of the schemas, each with a temperature, a seed and a length of the prompt by lot; all of them drawn by
    draft and model."""
    lot = random.Random(f"{pair.seed} {draft} {mode}")
    for schema in lot.sample(tuple(SCHEMAS), count):
        yield pair.request(
            schema,
            length=lot.choice((97, 119)),
            temperature=lot.choice(TEMPERATURES),
            seed=lot.randrange(2),
            draft=draft,
            stream_mode=mode or lot.choice(MODES),
        )


def total(counts: Iterator[Mapping[str, int]]) -> Counter[str]:
    return sum(map(Counter, counts), Counter())


@pytest.mark.parametrize("name", ADVERSARIES)
def test_an_adversary_alone_changes_nothing(pair: EnginePair, name: str) -> None:
    stats = [pair.drafted(request).stats for request in requests(pair, (name,), 3)]
    proposed = total(each.proposed_by_source for each in stats)[name]
    accepted = total(each.tokens_by_source for each in stats)[name]
    # And it is the adversary that it says it is.
    assert (proposed == 0) == (name in ("illegal", "beyond"))
    assert name != "wrong" or accepted == 0
    if name in ("right", "late", "ends", "doubled", "deep", "bushy", "doubtful"):
        assert accepted > 0
    if name == "late":
        assert sum(each.moved_rows for each in stats) > accepted // 8  # where the grammar forces, it can do nothing


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_the_right_answer_fills_every_step(pair: EnginePair, temperature: float) -> None:
    for schema in SCHEMAS:
        request = pair.request(schema, draft=("right",), temperature=temperature)
        drafted = pair.drafted(request)
        tokens = len(drafted.token_ids) + ended_by_eos(pair.answer(request))
        assert drafted.stats.decode_steps == -(-tokens // pair.width)
        assert drafted.stats.moved_rows == 0


@pytest.mark.parametrize(
    ("draft", "mode"),
    [
        (("forced",), "deferred"),
        (("lookup",), "deferred"),
        (("streams",), "deferred"),
        (("streams",), "fused"),
        (("forced", "lookup"), "deferred"),
        (BUILT_IN, "deferred"),
        (BUILT_IN, "fused"),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)
def test_the_sources_that_exist_change_nothing(pair: EnginePair, draft: tuple[str, ...], mode: str) -> None:
    stats = [pair.drafted(request).stats for request in requests(pair, draft, 6, mode)]
    proposed = total(each.proposed_by_source for each in stats)
    assert all(proposed[name] > 0 for name in draft)


@pytest.mark.parametrize("first", EVERYTHING)
def test_pairs_of_sources_change_nothing(pair: EnginePair, first: str) -> None:
    """Each model takes its share of the pairs."""
    for rank, draft in enumerate(combinations(EVERYTHING, 2)):
        if draft[0] == first and rank % len(SETTINGS) == pair.seed:
            for request in requests(pair, draft, 1):
                pair.drafted(request)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_all_sources_together_change_nothing(pair: EnginePair, temperature: float, mode: str) -> None:
    for seed, request in enumerate(requests(pair, EVERYTHING, 3, mode)):
        pair.drafted(replace(request, sampling=replace(request.sampling, temperature=temperature, seed=seed)))


def test_a_whole_record_is_the_same_and_so_is_the_error_of_too_few_tokens(pair: EnginePair) -> None:
    many = ("right", "late", "wrong", "ends", *BUILT_IN)
    for schema in SCHEMAS:
        request = pair.request(schema, temperature=2.0, seed=1, max_tokens=180, cut=False, draft=many)
        drafted = pair.drafted(request)
        assert drafted.is_complete
        needed = len(drafted.token_ids) + ended_by_eos(pair.answer(request))
        exact = replace(request, sampling=replace(request.sampling, max_tokens=needed))
        assert pair.drafted(exact).is_complete
        short = replace(request, sampling=replace(request.sampling, max_tokens=needed - 1))
        pair.drafters.answer = drafted.token_ids
        for engine, draft in ((pair.plain, ()), (pair.drafting, many), (pair.drafting, ("right",))):
            with pytest.raises(OutputLimit, match=f" {needed - 1} tokens"):
                engine.generate(replace(short, draft=draft))


drafts = st.lists(st.sampled_from(EVERYTHING), min_size=1, max_size=4, unique=True).map(tuple)


@some
@given(
    schema=schemas,
    source=sources,
    draft=drafts,
    mode=st.sampled_from(MODES),
    temperature=st.sampled_from(TEMPERATURES),
    seed=st.integers(0, 2**64 - 1),
    length=st.integers(1, 130),
    cut=st.integers(1, 50),
)
def test_any_schema_any_source_any_drafts(
    pair: EnginePair,
    schema: Schema,
    source: str,
    draft: tuple[str, ...],
    mode: str,
    temperature: float,
    seed: int,
    length: int,
    cut: int,
) -> None:
    request = replace(
        pair.request("text", length=length, draft=draft, stream_mode=mode),
        schema=schema,
        source=source,
        sampling=SamplingParams(temperature, seed, max_tokens=cut),
    )
    try:
        pair.plain.compile(schema, source)
    except SchemaRefused:
        assume(False)
    pair.drafted(request)
