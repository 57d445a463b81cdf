"""Results on their way from the coordinator to a reader."""

import threading
from typing import Any

import pytest

from fetchly.crawling.deliveries import WINDOW, Deliveries
from fetchly.crawling.results import PageResult, result_of
from fetchly.errors import Interrupted, OutputError
from fetchly.extraction.generator import ExtractionStats
from fetchly.goods import Evidence


def result(number: int, value: Any = None) -> PageResult:
    return PageResult(
        requested=f"http://a.example/{number}",
        url=f"http://a.example/{number}/",
        status=200,
        redirects=(f"http://a.example/{number}",),
        rendered=False,
        value=value,
        evidence={"/x": Evidence(True, "p", "text", 1, 5), "/y": Evidence(False)},
        warnings=("careful",),
        attempt=1,
        identity="0" * 64,
        stats=ExtractionStats(output_tokens=3, tokens_by_source={"plain": 3}, decode_ms=1.5),
    )


def test_results_come_in_their_order_and_make_room() -> None:
    nudges: list[int] = []
    deliveries = Deliveries(lambda: nudges.append(1))
    deliveries.put([result(1), result(2)])
    deliveries.put([result(3)])
    assert deliveries.room == WINDOW - 3
    assert [deliveries.take().requested[-1] for _ in range(3)] == ["1", "2", "3"]
    assert deliveries.room == WINDOW
    assert len(nudges) == 3


def test_what_came_before_the_end_is_taken_first() -> None:
    deliveries = Deliveries(lambda: None)
    deliveries.put([result(1)])
    deliveries.end(OutputError("the disk is full"))
    assert deliveries.wait()
    deliveries.take()
    assert not deliveries.wait()
    with pytest.raises(OutputError):
        deliveries.check()
    deliveries.check()  # said once


def test_a_reader_waits_until_something_happens() -> None:
    deliveries = Deliveries(lambda: None)
    threading.Timer(0.05, deliveries.put, ([result(1)],)).start()
    assert deliveries.wait()
    deliveries.take()
    threading.Timer(0.05, deliveries.end).start()
    assert not deliveries.wait()


def test_a_reader_may_give_up() -> None:
    with pytest.raises(Interrupted):
        Deliveries(lambda: None).wait(lambda: True)


@pytest.mark.parametrize("value", [{"a": [1, None, "é\ud83d"]}, [], [1, 2], "text", None, 1.5])
def test_a_result_survives_the_state(value: Any) -> None:
    text = result(1, value).as_text()
    assert text.isascii()
    assert "\n" not in text
    assert result_of(text) == result(1, value)


def test_a_list_is_as_many_records_as_it_has_entries() -> None:
    assert [result(1, value).records for value in ([], [1, 2], {}, None)] == [0, 2, 1, 1]
