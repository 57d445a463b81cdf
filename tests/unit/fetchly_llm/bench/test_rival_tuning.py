"""The rival gets the settings that are its fastest: found with clocks that tests can set."""

from collections.abc import Sequence

import pytest

from fetchly_llm.bench.rival import RivalSettings
from fetchly_llm.bench.rival_tuning import tuned
from fetchly_llm.bench.writing import Writing


class TimedRival:
    """A prompt takes `prefill` ms a token, by threads, and a written token `decode`; flash attention `flash` times
    that."""

    def __init__(self, settings: RivalSettings, prefill: dict[int, float], decode: dict[int, float], flash: float):
        factor = flash if settings.flash_attention else 1.0
        self._prefill = factor * prefill[settings.prefill_threads]
        self._decode = factor * decode[settings.threads]
        self.is_open = True

    def prefill(self, prompt_ids: Sequence[int]) -> float:
        return self._prefill * len(prompt_ids)

    def write(self, prompt_ids: Sequence[int], schema: object, max_tokens: int) -> Writing:
        times = tuple(50.0 + self._decode * number for number in range(max_tokens))
        return Writing("", len(prompt_ids), times, times[-1], False)

    def close(self) -> None:
        self.is_open = False


@pytest.mark.parametrize(("flash", "chosen"), [(0.9, True), (1.1, False)])
def test_threads_for_prompts_and_for_writing_are_chosen_apart_and_then_flash_attention(
    flash: float, chosen: bool
) -> None:
    prefill, decode = {1: 4.0, 2: 3.0, 4: 2.0, 6: 1.0}, {1: 9.0, 2: 5.0, 4: 6.0, 6: 7.0}
    opened: list[TimedRival] = []

    def open_rival(settings: RivalSettings) -> TimedRival:
        opened.append(TimedRival(settings, prefill, decode, flash))
        return opened[-1]

    settings = tuned(open_rival, list(range(2000)), 4096, 6)  # type: ignore[arg-type]
    assert settings == RivalSettings(4096, threads=2, prefill_threads=6, flash_attention=chosen)
    assert len(opened) == 8  # 1, 2, 4 and 6 threads, with and without
    assert not any(rival.is_open for rival in opened)


def test_flash_attention_is_weighed_on_a_whole_page() -> None:
    # Faster at writing, slower at reading: 1000 tokens are read for 100 that are written.
    opened: list[RivalSettings] = []

    def open_rival(settings: RivalSettings) -> TimedRival:
        opened.append(settings)
        rival = TimedRival(settings, {1: 1.0}, {1: 10.0}, 1.0)
        if settings.flash_attention:
            rival._prefill, rival._decode = 1.2, 9.0
        return rival

    assert not tuned(open_rival, [5] * 600, 4096, 1).flash_attention  # type: ignore[arg-type]
    assert len(opened) == 2  # one thread: nothing to choose
