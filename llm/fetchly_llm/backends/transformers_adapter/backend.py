"""A folder of any causal language model that transformers can run in; the step interface, for chains of drafts, out."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fetchly_llm.backend import Cache, StepOutput, WholeOutput
from fetchly_llm.backends.processors import within_quota
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig, ModelConfig
from fetchly_llm.errors import CapacityExceeded, ModelUnsupported, RequestInvalid
from fetchly_llm.streams import StreamAnchor, StreamDraft
from fetchly_llm.tree import DraftTree


class TransformersCache:
    """The committed tokens of one sequence, and transformers' keys and values.

    `past` is right for the whole windows of W positions below `len(tokens)`; what it holds beyond them is dropped
    before use.
    """

    def __init__(self, past: Any, capacity: int) -> None:
        self.past = past
        self.capacity = capacity
        self.tokens: list[int] = []
        self.pending: DraftTree | None = None

    @property
    def length(self) -> int:
        """Committed tokens."""
        return len(self.tokens)


class TransformersBackend:
    """Any AutoModelForCausalLM with an ordinary key-value cache, in fp32. See `fetchly_llm.backend.Backend`.

    Trees must be chains. Every pass has W rows and starts at an absolute multiple of W: the tokens of the last,
    unfinished window are computed again in each step, and the window is filled up with repeats that are cropped away.
    So a position always meets the same shapes, and its bits do not depend on how much was drafted. C must be a
    multiple of W.
    """

    def __init__(self, model: Any, config: ModelConfig, engine: EngineConfig) -> None:
        if engine.width < 1 or engine.prefill_chunk < 1 or engine.prefill_chunk % engine.width:
            raise RequestInvalid(
                f"prefill_chunk ({engine.prefill_chunk}) must be a multiple of width ({engine.width}) for this model"
            )
        self._model = model
        self._parameters: int = sum(parameter.numel() for parameter in model.parameters())
        self._arguments = frozenset(inspect.signature(model.forward).parameters)
        # The argument changed its name within transformers 5.
        self._cache_argument = "cache" if "cache" in self._arguments else "past_key_values"
        self._width = engine.width
        self._chunk = engine.prefill_chunk
        text = model.config.get_text_config()
        self._config = replace(
            config,
            vocab_size=config.vocab_size or int(text.vocab_size),
            # Some architectures have no limit of positions; the engine's own then is the limit.
            max_position=config.max_position or engine.context_length + engine.width,
        )
        torch.set_num_threads(engine.threads or within_quota(torch.get_num_threads()))

    @classmethod
    def load(cls, folder: Path, engine: EngineConfig) -> TransformersBackend:
        """Read a Hugging Face checkpoint (safetensors, no code from the folder is run).

        Raises ModelUnsupported where transformers is missing or cannot run the model step by step, RequestInvalid
        for a streams file, which only the Llama family has.
        """
        try:
            import transformers
        except ImportError as error:
            raise ModelUnsupported(
                f"the model in {folder} needs the transformers library", hint="Install fetchly[transformers]."
            ) from error
        if engine.streams_file is not None:
            raise RequestInvalid(
                "models that transformers runs have no speculative streams", hint="Leave out the streams file."
            )
        config = read_model_config(folder)
        try:
            model: Any = transformers.AutoModelForCausalLM.from_pretrained(
                folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False, use_safetensors=True
            )
        except (ValueError, OSError, KeyError, ImportError) as error:
            raise ModelUnsupported(f"transformers cannot load the model in {folder}: {error}") from error
        device = "cuda" if engine.device != "cpu" and torch.cuda.is_available() else "cpu"
        if engine.device == "cuda" and device == "cpu":
            raise RequestInvalid("device cuda was asked for, and torch sees none", hint="Use device auto or cpu.")
        backend = cls(model.to(device).eval(), config, engine)
        backend._refuse_other_memories()
        return backend

    @property
    def config(self) -> ModelConfig:
        """Shape of the model, as far as it is known."""
        return self._config

    @property
    def width(self) -> int:
        """W: rows of every pass."""
        return self._width

    @property
    def branching(self) -> bool:
        """Chains only."""
        return False

    @property
    def prefill_chunk(self) -> int:
        """C: tokens of every prefill chunk."""
        return self._chunk

    @property
    def identity(self) -> str:
        """Back-end, precision, libraries, device and the fixed shapes that the bits depend on."""
        import transformers

        versions = f"torch-{torch.__version__}/transformers-{transformers.__version__}"
        device = f"{self._model.device}-{torch.get_num_threads()}t" if self._model is not None else "closed"
        return f"transformers/fp32/{versions}/{device}/W{self._width}/C{self._chunk}"

    @property
    def streams(self) -> int:
        """None."""
        return 0

    @property
    def stream_parameters(self) -> int:
        """None."""
        return 0

    @property
    def parameters(self) -> int:
        """The model's parameters; tied ones count once."""
        return self._parameters

    @property
    def weight_bytes(self) -> int:
        """All is kept in fp32."""
        return 4 * self.parameters

    @property
    def threads(self) -> int:
        """Those of torch, in the whole process."""
        return torch.get_num_threads()

    def new_cache(self, capacity: int) -> TransformersCache:
        """An empty cache for `capacity` positions. Raises CapacityExceeded above the model's limit and a tree."""
        if capacity < 1:
            raise RequestInvalid(f"a cache of {capacity} positions holds nothing")
        if capacity > self._config.max_position + self._width:
            raise CapacityExceeded(
                f"a cache of {capacity} positions is more than the model's {self._config.max_position} and a tree",
                hint="Lower the context length.",
            )
        from transformers import DynamicCache

        # Without the model's configuration: layers with a sliding window keep all keys too, and can be cropped.
        return TransformersCache(DynamicCache(), capacity)

    @torch.inference_mode()
    def prefill(self, cache: Cache, tokens: Sequence[int]) -> None:
        """Append prompt tokens in chunks of C at absolute multiples of C. Raises like the reference back-end."""
        own = _own(cache)
        if own.length % self._chunk:
            raise RequestInvalid(
                f"prefill starts at a multiple of {self._chunk} tokens, and the cache holds {own.length}"
            )
        self._check(own, tokens)
        own.pending = None
        for first in range(0, len(tokens), self._chunk):
            self._crop(own)
            part = list(tokens[first : first + self._chunk])
            self._forward(own, part + [part[-1]] * (self._chunk - len(part)), keep_logits=False)
            own.tokens += part

    @torch.inference_mode()
    def step(self, cache: Cache, tree: DraftTree, logit_rows: Sequence[int]) -> StepOutput:
        """Passes over the windows that the chain `tree` touches: one, or two across a boundary.

        Raises RequestInvalid for a branching tree, one of more than W nodes, unknown tokens or rows.
        """
        own = _own(cache)
        if tree.parents != tuple(range(-1, len(tree) - 1)):
            raise RequestInvalid("this back-end runs chains, not branching trees", hint="Draft from a single source.")
        if len(tree) > self._width:
            raise RequestInvalid(f"a tree of {len(tree)} nodes is wider than the engine's {self._width} rows")
        if not all(0 <= row < len(tree) for row in logit_rows):
            raise RequestInvalid(f"logit rows {tuple(logit_rows)} are not all nodes of a tree of {len(tree)}")
        self._check(own, tree.tokens)
        self._crop(own)
        whole = own.length // self._width * self._width
        sequence = [*own.tokens[whole:], *tree.tokens]
        found = []
        for first in range(0, len(sequence), self._width):
            part = sequence[first : first + self._width]
            found.append(self._forward(own, part + [part[-1]] * (self._width - len(part)), keep_logits=True))
        own.pending = tree
        rows = [own.length - whole + row for row in logit_rows]
        return WholeOutput(np.ascontiguousarray(np.concatenate(found)[rows]))

    def speculate(
        self, cache: Cache, anchors: Sequence[StreamAnchor], vocabulary: NDArray[np.int64] | None = None
    ) -> tuple[StreamDraft, ...]:
        """Raises RequestInvalid: this back-end has no streams."""
        raise RequestInvalid("the model has no speculative streams", hint="Draft from other sources.")

    def commit(self, cache: Cache, path: Sequence[int]) -> None:
        """Keep the first nodes of the last chain. Raises RequestInvalid for anything else."""
        own = _own(cache)
        if own.pending is None:
            raise RequestInvalid("there is no step to commit: prefill, truncate and commit use it up")
        if not path or len(path) > len(own.pending) or list(path) != list(range(len(path))):
            raise RequestInvalid(f"nodes {tuple(path)} are not a path from the root of the last chain")
        own.tokens += own.pending.tokens[: len(path)]
        own.pending = None

    @torch.inference_mode()
    def fork(self, cache: Cache) -> TransformersCache:
        """An independent cache with the same committed tokens and capacity."""
        own = _own(cache)
        twin = TransformersCache(copy.deepcopy(own.past), own.capacity)
        twin.tokens = list(own.tokens)
        self._crop(twin)
        return twin

    @torch.inference_mode()
    def truncate(self, cache: Cache, length: int) -> None:
        """Forget everything after the first `length` committed tokens."""
        own = _own(cache)
        if not 0 <= length <= own.length:
            raise RequestInvalid(f"a cache of {own.length} tokens cannot be cut to {length}")
        self._crop(own)
        del own.tokens[length:]
        own.pending = None
        self._crop(own)

    def close(self) -> None:
        """Drop the model."""
        self._model = None

    def _forward(self, cache: TransformersCache, tokens: list[int], *, keep_logits: bool) -> NDArray[np.float32]:
        """Run `tokens` after what `cache.past` holds; logits of shape (len(tokens), vocab_size), or of the last row."""
        if self._model is None:
            raise RequestInvalid("the back-end is closed")
        ids = torch.tensor([tokens], device=self._model.device)
        options: dict[str, Any] = {self._cache_argument: cache.past}
        if not keep_logits and "logits_to_keep" in self._arguments:
            options["logits_to_keep"] = 1
        output = self._model(input_ids=ids, use_cache=True, **options)
        logits: NDArray[np.float32] = output.logits[0].float().cpu().numpy()
        return logits

    def _crop(self, cache: TransformersCache) -> None:
        """Drop what `past` holds beyond the whole windows of the committed tokens."""
        whole = cache.length // self._width * self._width
        excess = cache.past.get_seq_length() - whole
        if excess > 0:
            cache.past.crop(-excess)

    def _check(self, cache: TransformersCache, tokens: Sequence[int]) -> None:
        unknown = [token for token in tokens if not 0 <= token < self._config.vocab_size]
        if unknown:
            raise RequestInvalid(f"token {unknown[0]} is outside the vocabulary of {self._config.vocab_size}")
        end = cache.length + len(tokens)
        if end > min(cache.capacity, self._config.max_position):
            raise CapacityExceeded(
                f"{len(tokens)} more tokens after {cache.length} do not fit: the cache has {cache.capacity} positions, "
                f"the model {self._config.max_position}",
                hint="Shorten the prompt or raise the context length.",
            )

    @torch.inference_mode()
    def _refuse_other_memories(self) -> None:
        """Two tiny passes: a model that remembers in another way than by keys and values cannot forget a draft."""
        probe, fresh = self.new_cache(self._width), self.new_cache(self._width)
        try:
            self._forward(probe, [0] * self._width, keep_logits=True)
            self._crop(probe)
            again = self._forward(probe, [1] * self._width, keep_logits=True)
            first = self._forward(fresh, [1] * self._width, keep_logits=True)
        except Exception as error:  # foreign code that meets a cache it was not made for: it may raise anything
            raise ModelUnsupported(f"{type(self._model).__name__} cannot be run step by step: {error}") from error
        if probe.past.get_seq_length() != self._width or not np.allclose(again, first, atol=1e-3):
            raise ModelUnsupported(f"{type(self._model).__name__} does not use an ordinary key-value cache")


def _own(cache: Cache) -> TransformersCache:
    if not isinstance(cache, TransformersCache):
        raise RequestInvalid(f"a {type(cache).__name__} is not a cache of this back-end")
    return cache
