"""A rival and the threads it may have in; the settings with which it is fastest here out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fetchly_llm.bench.rival import Rival, RivalSettings

PROMPT, OUTPUT = 1000, 100
"""Tokens of the page and of the record that settings are weighed by."""
_PREFILLED, _WRITTEN, _ROUNDS = 512, 24, 3


@dataclass(frozen=True, slots=True)
class _Speed:
    """Milliseconds a token, the best of a few rounds."""

    settings: RivalSettings
    prefill: float
    decode: float


def tuned(
    open_rival: Callable[[RivalSettings], Rival], prompt_ids: Sequence[int], context_length: int, most_threads: int
) -> RivalSettings:
    """The number of threads, up to `most_threads`, for prompts and for writing, each the fastest; then flash attention
    or not, whichever is the faster on a typical page. Raises RequestInvalid where llama.cpp refuses."""
    plain = RivalSettings(context_length, 1, 1, flash_attention=False)
    found: list[_Speed] = []
    for flash in (False, True):
        speeds = [
            _speed(open_rival, replace(plain, threads=count, prefill_threads=count, flash_attention=flash), prompt_ids)
            for count in _counts(most_threads)
        ]
        prefill = min(speeds, key=lambda speed: speed.prefill)
        decode = min(speeds, key=lambda speed: speed.decode)
        settings = replace(decode.settings, prefill_threads=prefill.settings.prefill_threads)
        found.append(_Speed(settings, prefill.prefill, decode.decode))
    return min(found, key=lambda speed: PROMPT * speed.prefill + OUTPUT * speed.decode).settings


def _counts(most: int) -> list[int]:
    """Powers of two, and the most."""
    return [*(1 << power for power in range(most.bit_length()) if 1 << power < most), most]


def _speed(open_rival: Callable[[RivalSettings], Rival], settings: RivalSettings, prompt_ids: Sequence[int]) -> _Speed:
    prompt = list(prompt_ids[:_PREFILLED])
    rival = open_rival(settings)
    try:
        prefill = min(rival.prefill(prompt) for _ in range(_ROUNDS)) / len(prompt)
        writings = [rival.write(prompt, None, _WRITTEN) for _ in range(_ROUNDS)]
    finally:
        rival.close()
    spent = [
        each.decode_ms(len(each.token_ms)) / (len(each.token_ms) - 1) for each in writings if len(each.token_ms) > 1
    ]
    return _Speed(settings, prefill, min(spent, default=0.0))
