"""What sinks that are files, and standard output, do beside what all sinks do."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fetchly.errors import ConfigurationError, FetchlyError, OutputError
from fetchly.sinks.batch import Batch
from fetchly.sinks.journal import Journal
from fetchly.sinks.ledger import Ledger
from fetchly.sinks.opening import open_sink
from fetchly.sinks.options import SinkOptions
from fetchly.sinks.sink import Sink, Table
from tests.support.sinks import SCHEMA, Bench, abandon, batches, book, row, write_all

ROOT = Path(__file__).resolve().parents[2]
FILES = ("jsonl", "csv", "parquet")
ALL = (*FILES, "sqlite")


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_there_is_refused_or_replaced(kind: str, tmp_path: Path) -> None:
    bench = Bench(kind, tmp_path, None)
    file = Path(bench.path)
    file.write_bytes(b"of somebody else")
    file.chmod(0o640)
    for resume in (False, True):
        with pytest.raises(ConfigurationError, match="holds something already") as caught:
            bench.sink().open(bench.table(), resume=resume)
        assert caught.value.code == "OUTPUT_EXISTS"
        assert "existing: replace" in str(caught.value.hint)
        assert file.read_bytes() == b"of somebody else"
    bench.options = {"existing": "replace"}
    write_all(bench.sink(), bench.table(), batches(6))
    expected = bench.content()
    assert len(bench.names()) == sum(len(batch.rows) for batch in batches(6))
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    write_all(bench.sink(), bench.table(), batches(6))  # a new run of the same name
    assert bench.content() == expected


def test_a_link_stays_one(tmp_path: Path) -> None:
    for number, kind in enumerate(FILES):
        bench = Bench(kind, tmp_path, None, number)
        Path(bench.path).symlink_to(tmp_path / f"real{number}")
        write_all(bench.sink(), bench.table(), batches(20))
        assert Path(bench.path).is_symlink()
        assert bench.names()


def test_lines_are_there_for_a_reader_when_their_batch_is_written(tmp_path: Path) -> None:
    bench = Bench("jsonl", tmp_path, None)
    sink = bench.sink()
    sink.open(bench.table(), resume=False)
    sink.write(Batch(1, 1, (row("1", book(1)),)))
    assert bench.names() == ["Book 1"]
    sink.close()


@pytest.mark.parametrize("kind", FILES)
def test_two_runs_do_not_write_one_file(kind: str, tmp_path: Path) -> None:
    bench = Bench(kind, tmp_path, None, options={"existing": "replace"})
    sink = bench.sink()
    sink.open(bench.table(), resume=False)
    with pytest.raises(ConfigurationError) as caught:
        bench.sink().open(bench.table(), resume=True)
    assert caught.value.code == "SINK_IN_USE"
    if kind != "parquet":  # which appears at the end: the later run replaces the earlier one's
        other = Bench(kind, tmp_path, None, options={"existing": "replace"})
        (tmp_path / "other").mkdir()
        with pytest.raises(ConfigurationError) as caught:
            other.sink().open(Table("books", SCHEMA, "other", "s", tmp_path / "other"), resume=False)
        assert caught.value.code == "SINK_IN_USE"
    sink.close()


@pytest.mark.parametrize("step", ["copied", "noted", "moved"])
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_kill_while_repeated_rows_are_taken_out_changes_nothing(
    kind: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the compacted file is told of, after that, and when it is in place but the ledger does not know."""
    one, two = (Bench(kind, tmp_path, None, number) for number in (1, 2))
    write_all(one.sink(), one.table(), batches(60))

    class Killed(BaseException):
        pass

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    where = {
        "copied": "fetchly.sinks.ledger.Ledger.note",
        "noted": "os.replace",
        "moved": "fetchly.sinks.ledger.Ledger.replace_rows",
    }[step]
    sink = two.sink()
    sink.open(two.table(), resume=False)
    for batch in batches(60):
        sink.write(batch)
    with monkeypatch.context() as patch:
        patch.setattr(where, killed)
        with pytest.raises(Killed):
            sink.finish()
    abandon(sink)
    assert write_all(two.sink(), two.table(), batches(60), resume=True) == 60
    assert two.content() == one.content()
    assert [path for path in tmp_path.iterdir() if path.suffix == ".part"] == []


@pytest.mark.parametrize("step", ["facts", "file", "mark"])
@pytest.mark.parametrize("existing", ["refuse", "replace"])
@pytest.mark.parametrize("kind", FILES)
def test_a_kill_while_a_file_is_begun_is_gone_on_with(
    kind: str, existing: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (Bench(kind, tmp_path, None, number, {"existing": existing}) for number in (1, 2))
    write_all(one.sink(), one.table(), batches(6))
    if existing == "replace":
        Path(two.path).write_bytes(b"of an earlier run")

    class Killed(BaseException):
        pass

    owner, method = {"facts": (Ledger, "reset"), "file": (Journal, "_put"), "mark": (Ledger, "mark")}[step]
    real = getattr(owner, method)

    def killed(*arguments: Any) -> None:
        real(*arguments)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, killed)
        with pytest.raises(Killed):
            two.sink().open(two.table(), resume=True)
    assert write_all(two.sink(), two.table(), batches(6), resume=True) == 0
    assert two.content() == one.content()


@pytest.mark.parametrize("kind", ALL)
def test_a_place_that_cannot_be_written_is_said_at_the_start(kind: str, tmp_path: Path) -> None:
    def refused(path: Path) -> FetchlyError:
        sink = open_sink(SinkOptions.model_validate({kind: str(path)}))
        with pytest.raises(OutputError) as caught:
            sink.open(Table("t", SCHEMA, "r", "s", tmp_path), resume=False)
        assert caught.value.where == str(path)
        sink.close()
        return caught.value

    assert "is a folder" in refused(tmp_path).message
    assert "mkdir -p" in str(refused(tmp_path / "no" / "file").hint)
    os.mkfifo(tmp_path / "pipe")
    assert "is no file" in refused(tmp_path / "pipe").message
    if os.getuid() != 0:  # root may write everything
        (tmp_path / "read-only").touch(0o444)
        assert "Permission denied" in refused(tmp_path / "read-only").message


FULL = """
import json, resource, sys
from pathlib import Path
from fetchly.errors import OutputError
from fetchly.sinks.batch import Batch
from fetchly.sinks.opening import open_sink
from fetchly.sinks.options import SinkOptions
from fetchly.sinks.sink import Table
from tests.support.sinks import SCHEMA, row

said = []
for entry, folder in json.loads(sys.argv[1]):
    sink = open_sink(SinkOptions.model_validate(entry))
    sink.open(Table("books", SCHEMA, "run", "settings", Path(folder)), resume=False)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    done = 0
    try:
        for number in range(1, 100):
            sink.write(Batch(number, number, (row(f"{number:03}", {"name": "x" * 5_000}),)))
            sink.flush()
            done = number
        sink.finish()
    except OutputError as error:
        said.append([done, error.where, error.message, error.exit_code])
    sink.close()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(json.dumps(said))
"""


def test_a_full_disk_is_an_error_and_what_was_durable_stays(tmp_path: Path) -> None:
    """A limit on the length of files stands for it: the write fails in the system, in the middle of a row."""
    benches = [Bench(kind, tmp_path, None) for kind in ALL]
    entries = [({bench.kind: bench.path}, str(bench.table().folder)) for bench in benches]
    command = [sys.executable, "-c", FULL, json.dumps(entries)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'llm'}"}
    end = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert end.returncode == 0, end.stderr
    for bench, (done, where, message, exit_code) in zip(benches, json.loads(end.stdout), strict=True):
        assert 0 < done < 30
        assert str(tmp_path) in where
        assert "cannot be written" in message
        assert exit_code == 1
        sink: Sink = bench.sink()
        assert sink.open(bench.table(), resume=True) == done
        for number in range(done + 1, 40):
            sink.write(Batch(number, number, (row(f"{number:03}", {"name": "x" * 5_000}),)))
        sink.finish()
        sink.close()
        assert bench.names() == ["x" * 5_000] * 39


def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    bench = Bench("sqlite", tmp_path, None)
    Path(bench.path).write_text("no database, but a text that somebody has written " * 100)
    with pytest.raises(ConfigurationError, match="no SQLite database"):
        bench.sink().open(bench.table(), resume=False)
    assert Path(bench.path).read_text().startswith("no database")


def test_a_field_that_sqlite_takes_for_a_column_of_ours_is_refused(tmp_path: Path) -> None:
    bench = Bench("sqlite", tmp_path, None)
    with pytest.raises(ConfigurationError, match="apart") as caught:
        bench.sink().open(bench.table({"type": "object", "properties": {"_KEY": {"type": "string"}}}), resume=False)
    assert caught.value.code == "SINK_COLUMN"


def test_a_later_run_adds_to_a_table_and_leaves_other_columns_alone(tmp_path: Path) -> None:
    bench = Bench("sqlite", tmp_path, None)
    write_all(bench.sink(), bench.table(), [Batch(1, 1, (row("1", book(1)), row("2", book(2))))])
    with closing(sqlite3.connect(bench.path)) as database, database:
        database.execute("ALTER TABLE records ADD COLUMN note TEXT")
        database.execute("UPDATE records SET note = 'mine'")
    later = bench.table(run="later", settings="others")
    assert write_all(bench.sink(), later, [Batch(1, 1, (row("2", book(22)), row("3", book(3))))]) == 0
    found = {found["name"]: found["note"] for found in bench.content()}
    assert found == {"Book 1": "mine", "Book 22": "mine", "Book 3": None}


def test_two_tables_of_one_database_are_written_at_a_time(tmp_path: Path) -> None:
    benches = [Bench("sqlite", tmp_path, None, options={"table": name}) for name in ("records", "others")]
    sinks = [bench.sink() for bench in benches]
    for sink, bench in zip(sinks, benches, strict=True):
        sink.open(bench.table(), resume=False)
    for batch in batches(12):
        for sink in sinks:
            sink.write(batch)
    for sink in sinks:
        sink.finish()
        sink.close()
    ids = {record.id for batch in batches(12) for record in batch.rows}
    with closing(sqlite3.connect(benches[0].path)) as database:
        for table in ("records", "others"):
            assert {key for (key,) in database.execute(f"SELECT _key FROM {table}")} == ids


def test_parquet_has_the_schemas_types_and_bounded_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet

    monkeypatch.setattr("fetchly.sinks.parquet.GROUP_ROWS", 100)
    bench = Bench("parquet", tmp_path, None)
    rows = tuple(row(f"{number:05}", book(number)) for number in range(250))
    write_all(bench.sink(), bench.table(), [Batch(1, 1, rows)])
    file = pyarrow.parquet.ParquetFile(bench.path)
    assert file.metadata.num_row_groups == 3
    assert {field.name: str(field.type) for field in file.schema_arrow} == {
        "name": "string",
        "count": "int64",
        "price": "double",
        "sold": "bool",
        "day": "date32[day]",
        "at": "timestamp[us, tz=UTC]",
        "tags": "list<element: string>",
        "maker": "struct<name: string, founded: int64>",
        "mixed": "string",
        "_rest": "string",
    }
    assert file.read().column("count").to_pylist() == list(range(250))


def test_standard_output_has_every_record_of_a_resumed_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = SinkOptions.model_validate({"stdout": {"evidence": True}})
    table = Table("books", SCHEMA, "run", "settings", tmp_path)
    for resume in (False, True):
        assert write_all(open_sink(options), table, batches(9), resume=resume) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [line["_key"] for line in lines] == [r.id for batch in batches(9) for r in batch.rows]
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        sink = open_sink(options)
        sink.open(table, resume=False)
        with pytest.raises(OutputError, match="No space left"):
            sink.write(batches(9)[0])
        monkeypatch.setattr("sys.stdout", None)
        with pytest.raises(OutputError, match="closed"):
            sink.open(table, resume=False)
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space"):
            full.close()


def test_a_missing_library_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table("books", SCHEMA, "run", "settings", tmp_path)
    for entry, library, extra in (
        ({"parquet": str(tmp_path / "a")}, "pyarrow", "parquet"),
        ({"postgres": "postgresql://127.0.0.1/d"}, "psycopg", "postgres"),
        ({"jsonl": "memory://a"}, "fsspec", "store"),
    ):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(ConfigurationError, match=library) as caught:
            open_sink(SinkOptions.model_validate(entry)).open(table, resume=False)
        assert caught.value.hint == f"pip install 'fetchly[{extra}]'"
        assert caught.value.code == "EXTRA_MISSING"
