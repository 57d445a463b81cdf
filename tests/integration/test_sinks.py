"""What every sink must do, whatever it writes to: each test runs over all of them."""

import csv
import io
import json
import os
import random
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchly.errors import ConfigurationError, FetchlyError
from fetchly.sinks.batch import Batch
from fetchly.sinks.options import SinkOptions
from fetchly.sinks.place import check_places
from tests.support.postgres import needs_postgres, postgres_server
from tests.support.sinks import KINDS, SCHEMA, Bench, abandon, batches, book, row, write_all

ROOT = Path(__file__).resolve().parents[2]
PAGES = 60
SINKS = [pytest.param(kind, marks=needs_postgres) if kind == "postgres" else kind for kind in KINDS]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture
def make(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Bench]:
    """Benches of one kind: a place for each number."""

    def bench(kind: str, number: int = 0, **options: Any) -> Bench:
        postgres = request.getfixturevalue("server") if kind == "postgres" else None
        return Bench(kind, tmp_path, postgres, number, options)

    return bench


def undisturbed(bench: Bench, pages: int = PAGES) -> Any:
    assert write_all(bench.sink(), bench.table(), batches(pages)) == 0
    return bench.content()


@pytest.mark.parametrize("kind", SINKS)
def test_rows_are_there_once_each_and_of_repeated_keys_the_last(kind: str, make: Callable[..., Bench]) -> None:
    bench = make(kind)
    content = undisturbed(bench)
    expected: dict[str, str] = {}
    for batch in batches(PAGES):
        for record in batch.rows:
            expected.pop(record.id, None)
            expected[record.id] = record.value["name"]
    assert len(expected) < sum(len(batch.rows) for batch in batches(PAGES))
    names = bench.names()
    assert sorted(map(str, names)) == sorted(expected.values())
    if not isinstance(content, list):  # a text file has them where they came last
        assert names == list(expected.values())


@pytest.mark.parametrize("kind", SINKS)
def test_a_run_killed_again_and_again_is_as_if_it_had_not_been(kind: str, make: Callable[..., Bench]) -> None:
    expected = undisturbed(make(kind, 1))
    bench = make(kind, 2)
    flushed = 0
    for stop in range(3, PAGES, 9):
        sink = bench.sink()
        position = sink.open(bench.table(), resume=True)
        assert flushed <= position < stop
        for batch in batches(PAGES):
            if position < batch.first <= batch.last <= stop:
                sink.write(batch)
                if batch.last % 2 == 0:
                    sink.flush()
                    flushed = batch.last
        abandon(sink)
    assert flushed <= write_all(bench.sink(), bench.table(), batches(PAGES), resume=True) < PAGES
    assert bench.content() == expected


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_file_torn_anywhere_is_mended(kind: str, make: Callable[..., Bench]) -> None:
    """What was flushed, and lost nevertheless, is written again; what follows the last flush never was."""
    expected = undisturbed(make(kind, 1))
    dice = random.Random(9)
    for number in range(2, 8):
        bench = make(kind, number)
        file = half_written(bench)
        content = file.read_bytes()
        if number == 2:
            file.write_bytes(content + bytes(20))  # as a crash of the machine leaves it
        else:
            file.write_bytes(content[: 3 if number == 3 else dice.randrange(len(content))])
        assert write_all(bench.sink(), bench.table(), batches(PAGES), resume=True) < 42
        assert bench.content() == expected


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_file_that_something_else_has_changed_is_refused(kind: str, make: Callable[..., Bench]) -> None:
    expected = undisturbed(make(kind, 1))
    bench = make(kind, 2)
    file = half_written(bench)
    changed = bytearray(file.read_bytes())
    changed[3] ^= 1
    file.write_bytes(changed)
    with pytest.raises(ConfigurationError, match="not as this run has left it") as caught:
        bench.sink().open(bench.table(), resume=True)
    assert caught.value.code == "OUTPUT_DIFFERS"
    assert file.read_bytes() == changed
    file.unlink()  # the way out
    assert write_all(bench.sink(), bench.table(), batches(PAGES), resume=True) == 0
    assert bench.content() == expected


def half_written(bench: Bench) -> Path:
    """The file that a killed run has appended its rows to."""
    sink = bench.sink()
    sink.open(bench.table(), resume=False)
    for batch in batches(PAGES)[:14]:
        sink.write(batch)
        if batch.last % 4 == 0:
            sink.flush()
    abandon(sink)
    return next(bench.table().folder.glob("*.rows"), Path(bench.path))


@needs_postgres
def test_a_process_that_is_killed_and_begun_again_writes_the_same(make: Callable[..., Bench]) -> None:
    """kill -9, with all sinks open at once. A store in memory dies with its process, so here are those on the disk."""
    pages = 240
    kinds = ("jsonl", "csv", "parquet", "sqlite", "postgres")
    expected = [undisturbed(make(kind, 1), pages) for kind in kinds]
    benches = [make(kind, 2) for kind in kinds]
    options = [{bench.kind: bench.settings} for bench in benches]
    command = [sys.executable, "-m", "tests.support.sink_program", json.dumps(options)]
    command += [str(benches[0].table().folder), str(pages)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'llm'}"}
    begun_at = []
    for at in (40, 150):
        with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            begun_at.append([int(position) for position in program.stdout.readline().split()])
            for line in program.stdout:
                if int(line) >= at:
                    break
            program.kill()
    end = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert end.returncode == 0, end.stderr
    begun_at.append([int(position) for position in end.stdout.splitlines()[0].split()])
    assert begun_at[0] == [0] * len(kinds)
    assert all(0 < first < second < pages for first, second in zip(*begun_at[1:], strict=True))
    assert [bench.content() for bench in benches] == expected


@pytest.mark.parametrize("kind", SINKS)
def test_no_rows_are_a_run_too(kind: str, make: Callable[..., Bench]) -> None:
    bench = make(kind)
    assert write_all(bench.sink(), bench.table(), [Batch(1, 5, ()), Batch(6, 6, ())]) == 0
    assert bench.names() == []
    sink = bench.sink()
    assert sink.open(bench.table(), resume=True) == 6
    sink.close()


@pytest.mark.parametrize("kind", SINKS)
def test_a_finished_run_can_be_added_to(kind: str, make: Callable[..., Bench]) -> None:
    expected = undisturbed(make(kind, 1))
    bench = make(kind, 2)
    write_all(bench.sink(), bench.table(), batches(PAGES)[:12])
    assert write_all(bench.sink(), bench.table(), batches(PAGES), resume=True) == 36
    assert bench.content() == expected


@pytest.mark.parametrize("kind", SINKS)
def test_an_interrupted_run_keeps_what_it_wrote(kind: str, make: Callable[..., Bench]) -> None:
    bench = make(kind)
    sink = bench.sink()
    sink.open(bench.table(), resume=False)
    sink.write(batches(PAGES)[0])
    sink.close()
    sink.close()
    again = bench.sink()
    assert again.open(bench.table(), resume=True) == 3
    again.close()


@pytest.mark.parametrize("kind", SINKS)
def test_hostile_values_stay_what_they_are(kind: str, make: Callable[..., Bench]) -> None:
    bench = make(kind, evidence=True)
    values = [
        book(1, name="nul \x00 line\r\nbreak\n \"quoted\", ; 'and' \u2028 \U0001f600 e\u0301 \u202e"),
        book(2, name="half \ud800 of a pair", count=2**80, price=float("inf")),
        book(3, name="", count=-(2**63), price=-0.0, tags=["\x00", "=1+1", "\udfff"]),
        book(4, name=None, price=None, maker=None, tags=[], mixed=None),
        book(5, name="=cmd|' /C calc'!A0", maker={"name": None, "founded": 2**63}, mixed="=1"),
        book(6, day="2024-02-30", at="2024-02-29 12:00", price=2**80 + 1, mixed=10**30),
        {"name": "the rest is missing"},
    ]
    write_all(bench.sink(), bench.table(), [Batch(1, 1, tuple(row(str(n), v) for n, v in enumerate(values)))])
    assert [read_back(kind, found) for found in stored(bench)] == [without_nulls(value) for value in values]


def stored(bench: Bench) -> list[dict[str, Any]]:
    """Every row as fields, in the order of the keys; what stands in `_rest` in its place."""
    if bench.kind.startswith("jsonl"):
        rows = [json.loads(line) for line in bench.bytes().splitlines()]
    elif bench.kind.startswith("csv"):
        rows = list(csv_rows(bench.bytes().decode()))
    else:
        rows = bench.content()
    for number, found in enumerate(sorted(rows, key=lambda found: str(found["_key"]))):
        assert found.pop("_url") == f"http://shop/{number}"
        assert found.pop("_key") == f"book:http://shop/{number}#0"
        rest = found.pop("_rest", None) or {}
        found.update(json.loads(rest) if isinstance(rest, str) else rest)
    return rows


def csv_rows(text: str) -> Iterator[dict[str, Any]]:
    """By the stated rule: null is an empty cell, the empty text is `""`, which the library does not tell apart."""
    marked = re.sub(r'(^|,|\n)""(?=,|\r)', "\\1\ue000", text)
    for cells in csv.DictReader(io.StringIO(marked, newline=""), strict=True):
        yield {name: None if cell == "" else cell.replace("\ue000", "") for name, cell in cells.items()}


def read_back(kind: str, found: dict[str, Any]) -> dict[str, Any]:
    """A stored row as the record that it was."""
    value: dict[str, Any] = {}
    for name, cell in found.items():
        if cell is None:
            continue
        if kind.startswith("csv"):
            cell = csv_value(name, cell)
        elif isinstance(cell, str) and name in JSON_TEXT.get(kind.removesuffix("_store"), ()):
            cell = json.loads(cell)
        elif kind == "sqlite" and name == "sold":
            cell = bool(cell)
        elif hasattr(cell, "isoformat"):
            cell = AT if name == "at" else cell.isoformat()
        outer, _, inner = name.partition(".")
        if inner:
            value.setdefault(outer, {})[inner] = cell
        else:
            value[outer] = cell
    return without_nulls(value)


AT = "2024-02-29T12:00:00+02:00"
"""A database keeps the instant, not the offset that it was written with."""
JSON_TEXT = {"parquet": ("mixed",), "sqlite": ("mixed", "tags", "maker"), "jsonl": (), "postgres": ()}


def csv_value(name: str, cell: str) -> Any:
    text = cell.removeprefix("'").replace("\\ud800", "\ud800")
    if name in ("count", "maker.founded", "tags", "sold", "price") or (name == "mixed" and cell.isdigit()):
        return json.loads(cell)
    return text


def without_nulls(value: Any) -> Any:
    """A table tells null from missing no more, and an object of nulls from null."""
    if not isinstance(value, dict):
        return value
    kept = {name: without_nulls(item) for name, item in value.items()}
    return {name: item for name, item in kept.items() if item is not None and item != {}}


@pytest.mark.parametrize("kind", [kind for kind in SINKS if "_store" not in str(kind)])
def test_ten_thousand_rows_need_no_more_memory_than_a_hundred_at_a_time(kind: str, make: Callable[..., Bench]) -> None:
    bench = make(kind)
    sink = bench.sink()
    sink.open(bench.table(), resume=False)
    text = "x" * 4_000
    tracemalloc.start()
    for first in range(0, 10_000, 100):
        rows = tuple(row(f"{number:05}", {"name": text, "count": number}) for number in range(first, first + 100))
        sink.write(Batch(first + 1, first + 100, rows))
        if first % 1_000 == 900:
            sink.flush()
    sink.finish()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    sink.close()
    # Of 40 MB of rows. Parquet has a row group as text and as cells.
    assert peak < (50 << 20 if kind == "parquet" else 8 << 20)
    if kind in ("sqlite", "postgres"):
        assert len(bench.rows()[1]) == 10_000
    elif kind == "parquet":
        assert bench.parquet().column("count").to_pylist() == list(range(10_000))
    else:
        assert bench.bytes().count(b"\n") == 10_000 + (kind == "csv")


CHANGES: list[tuple[str, dict[str, Any], str]] = [
    ("type", {**SCHEMA["properties"], "count": {"type": "string"}}, "count"),
    ("new", {**SCHEMA["properties"], "isbn": {"type": "string"}}, "isbn"),
    ("gone", {name: node for name, node in SCHEMA["properties"].items() if name != "price"}, "price"),
]


@pytest.mark.parametrize(("properties", "named"), [change[1:] for change in CHANGES], ids=[c[0] for c in CHANGES])
@pytest.mark.parametrize("kind", SINKS)
def test_another_schema_is_refused_with_the_way_out(
    kind: str, properties: dict[str, Any], named: str, make: Callable[..., Bench]
) -> None:
    bench = make(kind)
    content = undisturbed(bench)
    other = bench.table({**SCHEMA, "properties": properties})
    sink = bench.sink()
    with pytest.raises(ConfigurationError, match=named) as caught:
        sink.open(other, resume=True)
    sink.close()
    assert caught.value.code in ("RUN_DIFFERS", "SINK_DIFFERS")
    assert caught.value.where == str(sink.place)
    assert caught.value.hint
    assert caught.value.exit_code == 2
    assert bench.content() == content


@pytest.mark.parametrize("kind", SINKS)
def test_other_settings_are_refused_for_the_same_run(kind: str, make: Callable[..., Bench]) -> None:
    bench = make(kind)
    content = undisturbed(bench)
    with pytest.raises(ConfigurationError, match="other settings") as caught:
        bench.sink().open(bench.table(settings="others"), resume=True)
    assert caught.value.code == "RUN_DIFFERS"
    assert bench.content() == content


@pytest.mark.parametrize("kind", SINKS)
def test_a_field_with_the_name_of_an_own_column_is_refused(kind: str, make: Callable[..., Bench]) -> None:
    bench = make(kind, evidence=True)
    schema = {**SCHEMA, "properties": {"_key": {"type": "string"}}}
    with pytest.raises(ConfigurationError, match="_key") as caught:
        bench.sink().open(bench.table(schema), resume=False)
    assert caught.value.code == "SINK_COLUMN"


@pytest.mark.parametrize("kind", SINKS)
def test_two_sinks_to_one_place_are_refused(kind: str, make: Callable[..., Bench]) -> None:
    places = [make(kind, number).sink().place for number in (1, 2, 1)]
    check_places(places[:2])
    with pytest.raises(ConfigurationError, match="two sinks") as caught:
        check_places(places)
    assert caught.value.where == str(places[0])


@pytest.mark.parametrize("kind", SINKS)
def test_a_record_that_is_not_json_is_an_error_that_names_its_page(kind: str, make: Callable[..., Bench]) -> None:
    bench = make(kind)
    sink = bench.sink()
    sink.open(bench.table(), resume=False)
    with pytest.raises(FetchlyError) as caught:
        sink.write(Batch(1, 1, (row("1", book(1)), row("2", {"price": float("nan")}))))
    sink.close()
    assert caught.value.code == "NOT_JSON"
    assert caught.value.where == "http://shop/2"
    again = bench.sink()
    assert again.open(bench.table(), resume=True) == 0
    again.finish()
    again.close()
    assert bench.names() == []


def test_a_place_is_compared_by_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    def place(**options: Any) -> Any:
        return SinkOptions.model_validate(options).settings.place

    same = [
        (place(jsonl=f"{tmp_path}/a"), place(csv=f"{tmp_path}/link/a")),
        (place(jsonl=f"file://{tmp_path}/a%20b"), place(jsonl=f"{tmp_path}/a b")),
        (place(sqlite={"path": f"{tmp_path}/a", "table": "T"}), place(sqlite={"path": f"{tmp_path}/a", "table": "t"})),
        (place(sqlite=f"{tmp_path}/a"), place(jsonl=f"{tmp_path}/a")),
        (place(postgres="postgresql://u:p@H/d"), place(postgres="postgres://w@h:5432/d")),
        (place(jsonl="s3://key:secret@bucket/x"), place(csv="S3://bucket/x")),
    ]
    for one, other in same:
        with pytest.raises(ConfigurationError):
            check_places([one, other])
    check_places([place(sqlite={"path": "a", "table": "t"}), place(sqlite={"path": "a", "table": "u"})])
    check_places([place(postgres={"url": "postgres://h/d", "schema": name}) for name in ("a", "b")])
