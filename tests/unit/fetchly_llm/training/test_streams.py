"""Streams in training say what the back-ends' streams say; they learn what a model writes; states come back whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from fetchly_llm.backends.native.backend import NativeBackend
from fetchly_llm.backends.torch_reference.stream_weights import load_streams
from fetchly_llm.backends.torch_reference.weights import load_weights
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig
from fetchly_llm.engine import Engine
from fetchly_llm.errors import RequestInvalid
from fetchly_llm.store.entry import ModelFolder
from fetchly_llm.stream_config import StreamConfig
from fetchly_llm.streams import StreamAnchor
from fetchly_llm.tokenizer import Tokenizer
from fetchly_llm.training.example_lines import read_examples
from fetchly_llm.training.own_answers import AnswerOptions, states_of, write_states
from fetchly_llm.training.run_folder import RunFolder
from fetchly_llm.training.stream_layers import Anchors, StreamLayers
from fetchly_llm.training.stream_parameters import StreamParameters
from fetchly_llm.training.stream_states import StateFolder, StreamStates, read_states
from fetchly_llm.training.streams import StreamLearner, StreamSettings
from fetchly_llm.tree import DraftTree
from tests.support.native_kernels import needs_kernels
from tests.support.tiny_model import make_tiny_model
from tests.support.tiny_streams import make_tiny_streams, tiny_stream_config

pytestmark = needs_kernels

CPU = torch.device("cpu")
OPTIONS = AnswerOptions(first_layer=1, taps=(0, 1, 2), threads=1, warm=0.5, longest=60)
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string", "x-verbatim": True}, "b": {"type": "boolean"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def written(path: Path, count: int) -> Path:
    lines = [
        {
            "id": f"p{number}",
            "set": "s",
            "variant": 0,
            "prompt_ids": [5 + number % 7, 6, 7 + number, *range(20, 40 + number)],
            "schema": SCHEMA,
            "source": "the price is high\nand low",
            "answer": "{}",
            "versions": {"format": "f1", "model": "m1"},
        }
        for number in range(count)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def of(folder: Path) -> ModelFolder:
    return ModelFolder("tiny", folder, "m1", "made by hand")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def states(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("states")
    tally = write_states(of(folder), [written(place / "e.jsonl", 12)], place / "s", {}, OPTIONS)
    assert (tally.answers, tally.kept, tally.left_out.total()) == (12, 0, 0)
    return place / "s"


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("parts", [(), ("insertion", "anchor", "lora", "markov", "confidence")])
def test_the_streams_in_training_are_those_of_the_back_end(family: str, parts: tuple[str, ...], tmp_path: Path) -> None:
    place = make_tiny_model(tmp_path / "model", family)
    config = replace(tiny_stream_config(3, parts), taps=(0, 2) if "insertion" in parts else ())
    file = make_tiny_streams(place, config=config)
    backend = NativeBackend.load(place, EngineConfig(threads=1, streams_file=file), precision="fp32")
    model = read_model_config(place)
    tokens = [7, 9, 11, 40, 41, 8, 9, 10, 11, 3, 44, 45]
    cache = backend.new_cache(64)
    backend.prefill(cache, tokens[:6])
    backend.step(cache, DraftTree.chain(tokens[6:], "known"), [])
    following = [21, 22, 23, 24, 25, 26]
    drafts = backend.speculate(cache, [StreamAnchor(node, following[node]) for node in range(6)])
    kept = cache.start
    assert kept is not None
    backend.commit(cache, range(6))

    learning = StreamParameters(config, model, 0, CPU)
    learning.load(load_file(file))
    layers = StreamLayers(model, load_weights(place, model, CPU), config, torch.float32)
    by_layer = dict(zip(sorted({config.first_layer, *config.taps}), kept.states, strict=True))
    keys = cache.keys.swapaxes(-1, -2)[..., : model.head_dim]
    flat = [
        torch.from_numpy(
            part[config.first_layer :]
            .reshape(-1, *part.shape[1:2], part.shape[2] * part.shape[3], model.head_dim)[:, :, :12]
            .copy()
        )
        for part in (keys, cache.values[..., : model.head_dim])
    ]
    anchors = Anchors(
        positions=torch.arange(6, 12),
        following=torch.tensor(following),
        first=torch.from_numpy(by_layer[config.first_layer]),
        taps=torch.from_numpy(
            np.stack([by_layer[tap] for tap in config.taps]) if config.taps else np.zeros((0, 6, 1), np.float32)
        ),
        keys=flat[0],
        values=flat[1],
    )
    with torch.no_grad():
        normed = layers(anchors, learning)
        logits = layers.head(normed, torch.arange(model.vocab_size)).view(6, 3, -1)
    for node, draft in enumerate(drafts):
        for stream in range(3):
            found = logits[node, stream, torch.from_numpy(draft.tokens[stream])]
            np.testing.assert_allclose(found, draft.logits[stream], atol=2e-4, rtol=2e-4)
            best = float(logits[node, stream].max())
            assert best == pytest.approx(float(draft.logits[stream, 0]), abs=2e-4)


def test_states_are_those_that_decoding_leaves(folder: Path, tmp_path: Path) -> None:
    line = read_examples([written(tmp_path / "e.jsonl", 1)], "m1", {})[0]
    config = tiny_stream_config(1, ("insertion",), first_layer=1, taps=(0, 1, 2))
    file = make_tiny_streams(make_tiny_model(tmp_path / "model"), config=config)
    engine_config = EngineConfig(threads=1, streams_file=file)
    backend = NativeBackend.load(folder, engine_config)
    engine = Engine(backend, Tokenizer.load(folder), engine_config)
    model = read_model_config(folder)
    found = states_of(engine, model, line, OPTIONS, 0)
    text = engine.tokenizer.decode(found.tokens[found.prompt :].tolist())
    assert json.loads(text)["a"] in ("the price is high", "and low") or json.loads(text)["a"] in "the price is high"
    # One token at a time, from an empty cache.
    cache = backend.new_cache(len(found.tokens) + 8)
    for place, token in enumerate(found.tokens[:-1].tolist()):
        output = backend.step(cache, DraftTree.root(token), [0])
        if place >= found.prompt - 1:
            anchor = place - found.prompt + 1
            assert cache.start is not None
            assert (cache.start.states[:, 0] == found.taps[:, anchor]).all()
            if found.chosen[anchor] and OPTIONS.warm == 0:
                assert output.logits[0].argmax() == found.likely[anchor, 0]
        backend.commit(cache, [0])
    again = cache.keys.swapaxes(-1, -2)[1:, :, :, :, : model.head_dim]
    flat = again.reshape(*again.shape[:2], -1, model.head_dim)[:, :, : len(found.tokens) - 1]
    assert (flat.astype(np.float16) == found.keys).all()
    assert (found.chances.sum(1)[found.chosen] > 0.5).all()
    assert (found.chances >= 0).all()
    assert found.chosen.any()
    assert not found.chosen.all()


def test_a_folder_of_states_is_gone_on_with_and_no_other_is(folder: Path, states: Path, tmp_path: Path) -> None:
    source = written(tmp_path / "e.jsonl", 12)
    for kept in states.iterdir():
        (tmp_path / kept.name).write_bytes(kept.read_bytes())
    lost = StateFolder(tmp_path).files()[3]
    before = read_states(lost)
    lost.unlink()
    tally = write_states(of(folder), [source], tmp_path, {}, OPTIONS)
    assert (tally.answers, tally.kept) == (1, 11)
    again = read_states(lost)
    assert all(np.array_equal(getattr(again, name), getattr(before, name)) for name in StreamStates.__slots__)
    with pytest.raises(RequestInvalid, match="have seed 0, not 1"):
        write_states(of(folder), [source], tmp_path, {}, replace(OPTIONS, seed=1))


def test_an_answer_without_an_end_is_left_out_and_not_tried_again(folder: Path, tmp_path: Path) -> None:
    source = written(tmp_path / "e.jsonl", 3)
    short = replace(OPTIONS, longest=3)
    tally = write_states(of(folder), [source], tmp_path / "s", {}, short)
    assert (tally.answers, tally.left_out.total()) == (0, 3)
    assert write_states(of(folder), [source], tmp_path / "s", {}, short).kept == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (replace(OPTIONS, first_layer=2), "no layer 2"),
        (replace(OPTIONS, taps=(0, 2)), "hold the first layer 1"),
        (replace(OPTIONS, taps=(1, 3)), "from 0 to 2"),
        (replace(OPTIONS, warm=2.0), "warm must be a share"),
    ],
)
def test_states_that_cannot_be_are_refused(folder: Path, tmp_path: Path, options: AnswerOptions, words: str) -> None:
    with pytest.raises(RequestInvalid, match=words):
        write_states(of(folder), [written(tmp_path / "e.jsonl", 1)], tmp_path / "s", {}, options)


def streams_of(gamma: int = 2) -> StreamConfig:
    return replace(tiny_stream_config(gamma), top=8)


def settings(steps: int, **changes: Any) -> StreamSettings:
    return replace(
        StreamSettings(steps=steps, streams=streams_of(), rate=2e-2, batch=3, anchors=16, others=16, warmup=2),
        **changes,
    )


def learner(folder: Path, states: Path, made: StreamSettings, held_out: int = 2) -> StreamLearner:
    return StreamLearner(folder, "m1", states, made, CPU, held_out)


def test_streams_learn_what_the_model_writes_and_the_file_loads(folder: Path, states: Path, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run", "streams.safetensors")
    job = learner(folder, states, settings(40))
    before = job.held_out()
    job.loop.run(run, look_every=20)
    after = job.held_out()
    assert before is not None
    assert after is not None
    assert after[0] < 0.7 * before[0]
    assert after[1]["held_out_ahead"] > before[1]["held_out_ahead"]
    assert load_streams(run.result, read_model_config(folder), CPU).config == streams_of()
    assert [line["held_out_rows"] for line in run.log() if "held_out" in line] == [after[1]["held_out_rows"]] * 2
    NativeBackend.load(folder, EngineConfig(threads=1, streams_file=run.result)).close()


def test_a_run_goes_on_to_the_same_bytes(folder: Path, states: Path, tmp_path: Path) -> None:
    whole, parts = (RunFolder(tmp_path / name, "streams.safetensors") for name in ("whole", "parts"))
    learner(folder, states, settings(6)).loop.run(whole)

    def stop(progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner(folder, states, settings(6)).loop.run(parts, on_step=stop)
    learner(folder, states, settings(6)).loop.run(parts, resume=True)
    assert whole.result.read_bytes() == parts.result.read_bytes()


@pytest.mark.parametrize(
    ("changed", "held_out", "words"),
    [
        ({"streams": replace(streams_of(), first_layer=0)}, 2, "need"),
        ({"streams": replace(streams_of(), gamma=0)}, 2, "gamma must be at least 1"),
        ({"anchors": 0}, 2, "anchors must be at least 1"),
        ({}, 12, "holds 12 answers, and 12 are to be held out"),
    ],
)
def test_runs_that_cannot_be_are_refused(
    folder: Path, states: Path, changed: dict[str, Any], held_out: int, words: str
) -> None:
    with pytest.raises(Exception, match=words) as refused:
        learner(folder, states, settings(2, **changed), held_out)
    assert isinstance(refused.value, RequestInvalid) or "gamma" in words


def test_states_of_another_model_and_damaged_ones_are_refused(folder: Path, states: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestInvalid, match="another model's"):
        StreamLearner(folder, "m2", states, settings(2), CPU)
    with pytest.raises(RequestInvalid, match="holds no states"):
        learner(folder, tmp_path, settings(2))
    damaged = tmp_path / "000000.safetensors"
    damaged.write_bytes(StateFolder(states).files()[0].read_bytes()[:-9])
    with pytest.raises(RequestInvalid, match="holds no states"):
        read_states(damaged)
    found = read_states(StateFolder(states).files()[0])
    misshapen = StateFolder(tmp_path / "misshapen")
    misshapen.begin({})
    for number, cut in enumerate(("likely", "chances", "taps", "keys")):
        misshapen.write(number, replace(found, **{cut: getattr(found, cut)[:, :-1]}))
        with pytest.raises(RequestInvalid, match="do not fit each other"):
            read_states(misshapen.file(number))
