"""Rows into several sinks at once, each from its own position on; a script in place of the sinks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fetchly.errors import FetchlyError, OutputError
from fetchly.pipeline import outlets
from fetchly.pipeline.outlets import BATCH_ROWS, BATCH_S, Outlets
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.rows import PageRows, Rejected
from fetchly.sinks.batch import Batch, Row
from fetchly.sinks.place import Place
from fetchly.sinks.sink import Table
from tests.support.crawl_program import SCHEMA

URL = "http://a.example/"


class Memory:
    """What several sinks durably hold, by name; `refuses` are names of rows, `full` of sinks that take nothing."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.position: dict[str, int] = {}
        self.batches: list[tuple[str, int, int, int]] = []
        self.refuses: set[str] = set()
        self.full: set[str] = set()
        self.finished: list[str] = []


class IntegrityError(Exception):
    """As the DB-API calls it."""


class FakeSink:
    """Keeps what was written until the next flush: a kill, or an error, loses it."""

    def __init__(self, memory: Memory, name: str) -> None:
        self._memory = memory
        self._name = name
        self.place = Place(name)
        self._waiting: dict[str, Any] = {}
        self._is_dead = False

    def open(self, table: Table, *, resume: bool) -> int:
        assert resume
        self._written = self._memory.position.setdefault(self._name, 0)
        self._memory.rows.setdefault(self._name, {})
        return self._written

    def write(self, batch: Batch) -> None:
        assert not self._is_dead
        assert batch.first == self._written + 1 <= batch.last + 1
        try:
            if self._name in self._memory.full:
                raise OSError("no space")
            if any(row.value["name"] in self._memory.refuses for row in batch.rows):
                raise IntegrityError("not this one")
        except (OSError, IntegrityError) as error:
            self._is_dead = True
            raise OutputError(f"refused: {error}", where=self._name) from None
        self._waiting.update({row.key: row.value["name"] for row in batch.rows})
        self._written = batch.last
        self._memory.batches.append((self._name, batch.first, batch.last, len(batch.rows)))

    def flush(self) -> None:
        assert not self._is_dead
        self._memory.rows[self._name].update(self._waiting)
        self._memory.position[self._name] = self._written
        self._waiting = {}

    def finish(self) -> None:
        if self._name in self._memory.full:
            raise OutputError("refused: no space", where=self._name)
        self.flush()
        self._memory.finished.append(self._name)

    def close(self) -> None:
        self._is_dead = True


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    memory = Memory()
    monkeypatch.setattr(outlets, "open_sink", lambda options: FakeSink(memory, Path(options.settings.path).name))
    return memory


class Desk:
    """Outlets to the sinks `a` and `b`, of which `b` takes the second schema alone; their clock is `now`."""

    def __init__(self, folder: Path, *, stop: bool = False, retry: bool = False) -> None:
        extract = [
            {"match": "/a/**", "schema": SCHEMA, "name": "one"},
            {"match": "/**", "schema": SCHEMA, "name": "two"},
        ]
        sinks = [{"jsonl": "a"}, {"jsonl": {"path": "b", "schemas": ["two"]}}]
        data = {"name": "x", "source": {"seeds": [URL]}, "extract": extract, "sinks": sinks}
        pipeline = Pipeline.from_dict(data, folder=folder)
        self.now = 0.0
        self.told: list[Rejected] = []
        self.outlets = Outlets(
            pipeline, pipeline.sinks, folder / "run", stop_at_rejected=stop, reject=self.told.append,
            clock=lambda: self.now,
        )  # fmt: skip
        self.outlets.open("this run", "settings", retry=retry)

    def add(self, *pages: int, schema: str = "two", rows: int = 1) -> None:
        for number in pages:
            made = [
                Row(f"{URL}{number}#{place}", f"{URL}{number}", schema, "i", {"name": f"{number}.{place}"})
                for place in range(rows)
            ]
            self.outlets.add(PageRows(number, tuple(made)))

    @property
    def rows(self) -> list[int]:
        return [use.rows for use in self.outlets.uses]


def test_a_batch_is_written_when_it_is_large_or_has_waited(tmp_path: Path, memory: Memory) -> None:
    desk = Desk(tmp_path)
    desk.add(1, 2)
    desk.outlets.tick()
    assert memory.batches == []
    desk.now = BATCH_S
    desk.outlets.tick()
    assert memory.batches == [("a", 1, 2, 2), ("b", 1, 2, 2)]
    desk.add(3, rows=BATCH_ROWS)
    assert memory.batches[2:] == [("a", 3, 3, BATCH_ROWS), ("b", 3, 3, BATCH_ROWS)]
    desk.outlets.finish()
    assert memory.finished == ["a", "b"]


def test_a_sink_has_the_rows_of_its_schemas_and_the_numbers_of_all(tmp_path: Path, memory: Memory) -> None:
    desk = Desk(tmp_path)
    desk.add(1, schema="one")
    desk.add(2, schema="two")
    desk.add(3, schema="one", rows=0)
    desk.outlets.close()
    assert memory.batches == [("a", 1, 3, 2), ("b", 1, 3, 1)]
    assert desk.rows == [2, 1]


def test_each_sink_goes_on_from_its_own_position(tmp_path: Path, memory: Memory) -> None:
    memory.position = {"a": 2, "b": 4}
    desk = Desk(tmp_path)
    desk.add(1, 2, 3, 4, 5)
    desk.outlets.finish()
    assert memory.batches == [("a", 3, 5, 3), ("b", 5, 5, 1)]
    assert desk.rows == [5, 5]  # of all runs


def test_one_sink_that_is_full_keeps_no_other_from_its_rows(tmp_path: Path, memory: Memory) -> None:
    memory.full = {"a"}
    desk = Desk(tmp_path)
    desk.add(1, 2)
    with pytest.raises(OutputError, match="no space"):
        desk.outlets.finish()
    desk.outlets.close()
    assert memory.position == {"a": 0, "b": 2}
    memory.full = set()
    again = Desk(tmp_path)
    again.add(1, 2)
    again.outlets.finish()
    assert memory.rows["a"] == memory.rows["b"] == {f"{URL}1#0": "1.0", f"{URL}2#0": "2.0"}
    assert again.told == []


def test_one_sink_that_cannot_be_finished_keeps_no_other_from_it(tmp_path: Path, memory: Memory) -> None:
    memory.full = {"a"}
    desk = Desk(tmp_path)
    with pytest.raises(OutputError, match="no space"):
        desk.outlets.finish()
    assert memory.finished == ["b"]


def test_a_row_that_is_refused_is_left_out_alone_and_offered_again(tmp_path: Path, memory: Memory) -> None:
    memory.refuses = {"2.1"}
    desk = Desk(tmp_path)
    desk.add(1, 2, 3, rows=2)
    desk.outlets.finish()
    assert sorted(memory.rows["a"].values()) == ["1.0", "1.1", "2.0", "3.0", "3.1"]
    assert [(row.key, row.sink) for row in desk.told] == [(f"{URL}2#1", "a"), (f"{URL}2#1", "b")]
    assert desk.rows == [5, 5]

    later = Desk(tmp_path)  # not asked to try again, it does not
    later.add(1, 2, 3, rows=2)
    later.outlets.finish()
    assert len(later.outlets.rejected) == 2
    assert later.rows == [5, 5]

    memory.refuses = set()
    retried = Desk(tmp_path, retry=True)
    retried.add(1, 2, 3, rows=2)
    retried.outlets.finish()
    assert len(memory.rows["a"]) == len(memory.rows["b"]) == 6
    assert memory.position == {"a": 3, "b": 3}
    assert retried.outlets.rejected == ()
    assert Desk(tmp_path).outlets.rejected == ()


def test_a_run_that_stops_raises_the_first_refusal_and_does_not_go_on_behind_it(tmp_path: Path, memory: Memory) -> None:
    memory.refuses = {"2.0"}
    desk = Desk(tmp_path, stop=True)
    desk.add(1, 2, 3)
    with pytest.raises(FetchlyError, match="not this one"):
        desk.outlets.finish()
    assert memory.position == {"a": 0, "b": 0}


def test_a_kill_while_rows_are_tried_alone_loses_none(tmp_path: Path, memory: Memory) -> None:
    memory.refuses = {"2.0"}

    def killed(row: Rejected) -> None:
        raise KeyboardInterrupt

    desk = Desk(tmp_path)
    desk.outlets._rejects._told = killed
    desk.add(1, 2, 3)
    with pytest.raises(KeyboardInterrupt):
        desk.outlets.finish()
    again = Desk(tmp_path)
    again.add(1, 2, 3)
    again.outlets.finish()
    assert sorted(memory.rows["a"].values()) == sorted(memory.rows["b"].values()) == ["1.0", "3.0"]
    assert len(again.outlets.rejected) == 2


def test_a_row_that_comes_again_and_is_taken_then_is_refused_no_more(tmp_path: Path, memory: Memory) -> None:
    memory.refuses = {"2.0"}

    def killed(row: Rejected) -> None:
        raise KeyboardInterrupt

    desk = Desk(tmp_path)
    desk.outlets._rejects._told = killed
    desk.add(1, 2, 3)
    with pytest.raises(KeyboardInterrupt):
        desk.outlets.finish()
    memory.refuses = set()
    again = Desk(tmp_path)
    again.add(1, 2, 3)
    again.outlets.finish()
    assert len(memory.rows["a"]) == 3
    assert again.outlets.rejected == ()
    assert Desk(tmp_path).outlets.rejected == ()


def test_what_a_kill_tore_of_the_rejected_rows_spoils_none_that_follows(tmp_path: Path, memory: Memory) -> None:
    Desk(tmp_path)
    (tmp_path / "run" / "rejected.jsonl").write_text('{"key": "tor')
    memory.refuses = {"2.0"}
    desk = Desk(tmp_path)
    desk.add(1, 2, 3)
    desk.outlets.finish()
    assert [row.sink for row in Desk(tmp_path).outlets.rejected] == ["a", "b"]


def test_the_folder_of_another_run_is_of_no_use(tmp_path: Path, memory: Memory) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "run" / "left").write_text("over")
    desk.outlets.open("this run", "settings")
    assert (tmp_path / "run" / "left").exists()
    desk.outlets.open("another run", "settings")
    assert not (tmp_path / "run" / "left").exists()


def test_a_folder_that_no_run_has_made_is_not_emptied(tmp_path: Path, memory: Memory) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match="none of a run's"):
        Desk(tmp_path).outlets.open("this run", "settings")
    assert (folder / "thesis.txt").read_text() == "years of work"
