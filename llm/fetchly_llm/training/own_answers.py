"""Examples and an engine in; the answers that the model itself writes, as states for its streams to learn from, out.

Streams are to say what the model will write, so they learn from what it writes under the grammar's masks, right or
wrong (as DSpark, arXiv 2607.05147, regenerates answers by its target).
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.backend import Backend
from fetchly_llm.backends.native.backend import NativeBackend
from fetchly_llm.backends.native.kv_cache import KeyValueCache
from fetchly_llm.backends.native.library import BLOCK
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig, ModelConfig
from fetchly_llm.engine import Engine
from fetchly_llm.errors import EngineError, RequestInvalid
from fetchly_llm.grammar import bitmask
from fetchly_llm.grammar.compiler import Grammar
from fetchly_llm.grammar.prepare import prepare
from fetchly_llm.request import GenerationRequest, SamplingParams
from fetchly_llm.safetensors_file import TensorSource, write_tensors
from fetchly_llm.store.entry import ModelFolder
from fetchly_llm.stream_config import STREAMS_FILE, StreamConfig, stream_metadata, stream_shapes
from fetchly_llm.training.example_lines import ExampleLine, read_examples
from fetchly_llm.training.stream_states import TEACHERS, StateFolder, StreamStates
from fetchly_llm.tree import DraftTree

_ROWS = 32  # of a pass over an answer that is known


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """How answers are drawn, and what is kept: the keys and values of the layers from `first_layer` on and the hidden
    states after `taps` layers. `warm` is the share of answers drawn at `temperature`, the others are at 0."""

    first_layer: int = 20
    taps: tuple[int, ...] = (5, 12, 20)
    warm: float = 0.3
    temperature: float = 0.7
    seed: int = 0
    longest: int = 700
    threads: int | None = None

    def check(self, model: ModelConfig) -> None:
        """Raises RequestInvalid for what cannot be."""
        taps = self.taps
        if not 0 <= self.first_layer < model.num_layers:
            raise RequestInvalid(f"the model has no layer {self.first_layer} of {model.num_layers}")
        if list(taps) != sorted({*taps, self.first_layer}) or not 0 <= taps[0] <= taps[-1] <= model.num_layers:
            raise RequestInvalid(
                f"taps {taps} must rise, lie from 0 to {model.num_layers} and hold the first layer {self.first_layer}"
            )
        if not 0 <= self.warm <= 1 or self.temperature <= 0 or self.longest < 1:
            raise RequestInvalid("warm must be a share, temperature and longest positive")


@dataclass(slots=True)
class AnswerTally:
    """What became of the examples; those of earlier runs on the same folder are `kept`."""

    kept: int = 0
    answers: int = 0
    tokens: int = 0
    choices: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def summary(self) -> dict[str, Any]:
        """All figures, for one JSON line."""
        return {**asdict(self), "left_out": dict(self.left_out.most_common())}


def write_states(
    folder: ModelFolder,
    files: Sequence[Path],
    states: Path,
    take: Mapping[str, int],
    options: AnswerOptions,
    on_example: Callable[[str], None] = lambda name: None,
) -> AnswerTally:
    """Have the model in `folder` answer every example, and keep what its streams need of it in the folder `states`.

    A folder with states of the same settings is gone on with. Raises RequestInvalid for examples and settings that
    cannot be, ModelUnsupported where the native kernels do not run the model, OSError where states cannot be written.
    """
    model = read_model_config(folder.path)
    options.check(model)
    lines = read_examples(files, folder.digest, take)
    lines = sorted(lines, key=lambda line: sha256(line.name.encode()).digest())  # a part of them is a fair sample
    place = StateFolder(states)
    kept = {name: value for name, value in asdict(options).items() if name != "threads"}
    names = sha256("\n".join(line.name for line in lines).encode()).hexdigest()
    settings = {**kept, "taps": list(options.taps), "model": folder.digest, "format": lines[0].format, "lines": names}
    tally = AnswerTally()
    with _watched_engine(folder.path, model, options) as engine:
        place.begin({**settings, "identity": engine.identity})
        for number, line in enumerate(lines):
            on_example(line.name)
            if place.is_done(number):
                tally.kept += 1
                continue
            try:
                found = states_of(engine, model, line, options, number)
            except EngineError as error:
                if isinstance(error, RequestInvalid):
                    raise
                tally.left_out[error.message[:60]] += 1
                place.leave_out(number, error.message)
                continue
            place.write(number, found)
            tally.answers += 1
            tally.tokens += len(found.tokens)
            tally.choices += int(found.chosen.sum())
    return tally


@contextmanager
def _watched_engine(folder: Path, model: ModelConfig, options: AnswerOptions) -> Iterator[Engine]:
    """An engine whose steps leave the hidden states of `options.taps`: that of streams which do nothing."""
    streams = StreamConfig(gamma=1, first_layer=options.first_layer, taps=options.taps, insertion_rank=1, top=1)
    with tempfile.TemporaryDirectory(prefix="fetchly-") as place:
        file = Path(place) / STREAMS_FILE
        tensors = [
            TensorSource(name, shape, [np.zeros(shape, np.float32)])
            for name, shape in stream_shapes(streams, model).items()
        ]
        write_tensors(file, tensors, metadata=stream_metadata(streams, model))
        engine = Engine.load(folder, EngineConfig(device="native", threads=options.threads, streams_file=file))
    try:
        yield engine
    finally:
        engine.close()


def states_of(
    engine: Engine, model: ModelConfig, line: ExampleLine, options: AnswerOptions, number: int
) -> StreamStates:
    """One example's answer as the model writes it, and the states; `number` is its place, of which its noise follows.

    Raises EngineError where the answer comes to no end.
    """
    prompt = line.prompt(model.vocab_size)
    prepared = prepare(line.schema, mode="check")
    is_warm = np.random.default_rng((options.seed, number)).random() < options.warm
    sampling = SamplingParams(options.temperature if is_warm else 0.0, options.seed + number, 0, options.longest)
    prefilled = engine.prefill(prompt)
    request = GenerationRequest(
        prompt_ids=tuple(prompt),
        shared_prefix=0,
        schema=prepared.enforced,
        source=line.source,
        sampling=sampling,
        allowed_escapes=prepared.allowed_escapes,
        draft=("forced", "lookup"),
    )
    answer = engine.generate(request, prefilled).token_ids
    grammar = engine.compile(prepared.enforced, line.source, prepared.allowed_escapes)
    watched = _watched(engine.backend, prefilled.cache, prompt[-1], answer, grammar)
    own = prefilled.cache
    assert isinstance(own, KeyValueCache)
    return StreamStates(
        name=line.name,
        tokens=np.array([*prompt, *answer], dtype=np.int32),
        chosen=watched.chosen,
        keys=_by_position(own.keys.swapaxes(-1, -2), options.first_layer, own.length, model.head_dim),
        values=_by_position(own.values, options.first_layer, own.length, model.head_dim),
        taps=watched.taps,
        likely=watched.likely,
        chances=watched.chances,
    )


@dataclass(frozen=True, slots=True)
class _Watched:
    taps: NDArray[np.float32]
    chosen: NDArray[np.bool_]
    likely: NDArray[np.int32]
    chances: NDArray[np.float32]


def _watched(backend: Backend, cache: Any, last: int, answer: Sequence[int], grammar: Grammar) -> _Watched:
    """Step through a known answer: the states before each of its tokens, and what the model thought would follow."""
    assert isinstance(backend, NativeBackend)
    matcher = grammar.matcher()
    words = bitmask.allocate(1, backend.config.vocab_size)[0]
    fed = [last, *answer[:-1]]
    count = len(answer)
    chosen = np.zeros(count, np.bool_)
    likely = np.zeros((count, TEACHERS), np.int32)
    chances = np.zeros((count, TEACHERS), np.float32)
    taps: list[NDArray[np.float32]] = []
    for first in range(0, count, _ROWS):
        part = fed[first : first + _ROWS]
        output = backend.step(cache, DraftTree.chain(part, "known"), range(len(part)))
        taps.append(cache.start.states.copy())
        for row in range(len(part)):
            matcher.fill_bitmask(words)
            legal = bitmask.legal_tokens(words)
            scores = output.scores(row, legal).astype(np.float64)
            best = np.argsort(-scores, kind="stable")[:TEACHERS]
            weights = np.exp(scores - scores.max())
            likely[first + row, : len(best)] = legal[best]
            chances[first + row, : len(best)] = weights[best] / weights.sum()
            chosen[first + row] = not matcher.forced_tokens() and len(legal) > 1
            if not matcher.is_terminated and answer[first + row] not in backend.config.eos_token_ids:
                matcher.accept(answer[first + row])
        backend.commit(cache, range(len(part)))
    return _Watched(np.concatenate(taps, axis=1), chosen, likely, chances)


def _by_position(blocks: NDArray[np.float32], first: int, length: int, dim: int) -> NDArray[np.float16]:
    """(layers, kv_heads, blocks, BLOCK, dim or more) -> (layers from `first`, kv_heads, length, dim), fp16."""
    used = blocks[first:, :, : -(-length // BLOCK), :, :dim]
    layers, heads = used.shape[:2]
    return used.reshape(layers, heads, -1, dim)[:, :, :length].astype(np.float16)
