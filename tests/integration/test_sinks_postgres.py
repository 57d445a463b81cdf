"""What the sink to PostgreSQL does beside what all sinks do, on a real server."""

import itertools
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fetchly.errors import ConfigurationError, OutputError
from fetchly.sinks.batch import Batch
from fetchly.sinks.opening import open_sink
from fetchly.sinks.options import SinkOptions
from fetchly.sinks.sink import Sink, Table
from tests.support.crawl_site import page
from tests.support.pipelines import items, ran
from tests.support.postgres import PASSWORD, QUOTED, needs_postgres, postgres_server
from tests.support.sinks import SCHEMA, batches, book, row, write_all

pytestmark = needs_postgres
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture
def name() -> str:
    return f"table {next(NUMBERS)}"


def sink_of(url: str, **settings: Any) -> Sink:
    return open_sink(SinkOptions.model_validate({"postgres": {"url": url, **settings}}))


def table(folder: Path, schema: Any = SCHEMA, run: str = "run") -> Table:
    return Table("books", schema, run, "settings", folder)


def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)  # type: ignore[call-overload]
        return cursor.fetchall() if cursor.description else []


def test_types_are_the_databases_own(server: str, name: str, tmp_path: Path) -> None:
    query(server, 'CREATE SCHEMA "of mine"')
    write_all(sink_of(server, table=name, schema="of mine"), table(tmp_path), [Batch(1, 1, (row("1", book(1)),))])
    found = query(
        server,
        "SELECT column_name, data_type FROM information_schema.columns "
        f"WHERE table_schema = 'of mine' AND table_name = '{name}' ORDER BY ordinal_position",
    )
    assert dict(found) == {
        "name": "text", "count": "bigint", "price": "double precision", "sold": "boolean", "day": "date",
        "at": "timestamp with time zone", "tags": "jsonb", "maker": "jsonb", "mixed": "jsonb", "_key": "text",
        "_rest": "json",
    }  # fmt: skip
    assert query(server, f"""SELECT maker->>'founded', tags->>0 FROM "of mine"."{name}" """) == [("1901", "a")]
    assert query(server, 'SELECT position FROM "of mine"._fetchly_sinks') == [(1,)]


def test_names_may_hold_anything(server: str, tmp_path: Path) -> None:
    hostile = 'x"; DROP TABLE y; -- %s {} ü'
    doubled = hostile.replace('"', '""')
    query(server, f'CREATE SCHEMA "{doubled}"')
    schema = {"properties": {f"{hostile} {number}": {"type": "integer"} for number in range(2)} | {"%(a)s": {}}}
    value = {f"{hostile} 0": 0, f"{hostile} 1": 1, "%(a)s": "percent"}
    for _ in range(2):
        write_all(
            sink_of(server, table=hostile, schema=hostile), table(tmp_path, schema), [Batch(1, 1, (row("1", value),))]
        )
    assert query(server, f'SELECT * FROM "{doubled}"."{doubled}"') == [(0, 1, "percent", "book:http://shop/1#0", None)]


def test_a_broken_connection_is_made_again_and_nothing_is_written_twice(server: str, name: str, tmp_path: Path) -> None:
    def cut() -> None:
        query(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'fetchly'")

    sink = sink_of(server, table=name)
    sink.open(table(tmp_path), resume=False)
    for batch in batches(30):
        cut()
        sink.write(batch)
    sink.finish()
    sink.close()
    ids = {record.id for batch in batches(30) for record in batch.rows}
    assert {key for (key,) in query(server, f'SELECT _key FROM "{name}"')} == ids


def test_a_server_that_stays_away_is_an_error_that_can_be_tried_again(server: str, name: str, tmp_path: Path) -> None:
    query(server, "CREATE DATABASE away")
    sink = sink_of(server.replace("/postgres", "/away"), table=name)
    sink.open(table(tmp_path), resume=False)
    query(server, "ALTER DATABASE away ALLOW_CONNECTIONS false")
    query(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'away'")
    with pytest.raises(OutputError, match="cannot be reached") as caught:
        sink.write(batches(3)[0])
    sink.close()
    assert caught.value.code == "SINK_UNREACHABLE"
    assert caught.value.retryable
    assert caught.value.where == str(sink.place)


def test_the_password_is_in_no_error(server: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    here = server.rpartition("@")[2]
    wrong = "wr0ng%2Fword"
    urls = [
        f"postgresql://tests:{QUOTED}@127.0.0.1:{port}/postgres",  # nobody listens
        f"postgresql://tests:{wrong}@{here}",
        f"postgresql://tests:{QUOTED}@{here.replace('/postgres', '/absent')}",
        f"{server}?password={wrong}",
        f"{server}?unknown_option={wrong}&password={QUOTED}",
        f"postgresql://nobody:{QUOTED}@{here}",
    ]
    for url in urls:
        with pytest.raises(OutputError) as caught:
            sink_of(url).open(table(tmp_path), resume=False)
        said = f"{caught.value.line()} {caught.value!r} {caught.value.__cause__!r}"
        assert caught.value.exit_code == 1
        assert caught.value.where is not None
        assert "127.0.0.1" in caught.value.where
        assert not any(secret in said for secret in (PASSWORD, QUOTED, wrong, "wr0ng/word"))


def test_what_the_database_refuses_is_said(server: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"refuses: schema \"absent\" does not exist"):
        sink_of(server, schema="absent").open(table(tmp_path), resume=False)
    write_all(sink_of(server, table=name), table(tmp_path), batches(6))
    query(server, f'ALTER TABLE "{name}" ADD CONSTRAINT few CHECK (count <> 99)')
    sink = sink_of(server, table=name)
    assert sink.open(table(tmp_path, run="other"), resume=False) == 0
    with pytest.raises(OutputError, match="few"):
        sink.write(Batch(1, 1, (row("good", book(1)), row("bad", book(99)))))
    sink.close()
    found = query(server, f"""SELECT count(*) FROM "{name}" WHERE _key LIKE '%good%'""")
    assert found == [(0,)], "a batch is there whole or not at all"


def test_the_statement_in_the_hint_mends_the_table(server: str, name: str, tmp_path: Path) -> None:
    write_all(sink_of(server, table=name), table(tmp_path), batches(6))
    properties = {key: node for key, node in SCHEMA["properties"].items() if key != "sold"} | {"isbn": {}}
    other = table(tmp_path, {**SCHEMA, "properties": properties}, run="other")
    for words in ("no column 'isbn'", "no longer has the column 'sold'"):
        with pytest.raises(ConfigurationError, match=words) as caught:
            sink_of(server, table=name).open(other, resume=False)
        query(server, str(caught.value.hint).partition(", or ")[2])
    assert write_all(sink_of(server, table=name), other, batches(6)) == 0


def test_a_key_longer_than_an_index_takes_is_stored(server: str, name: str, tmp_path: Path) -> None:
    import random

    dice = random.Random(1)
    long = "".join(chr(dice.randrange(0x4E00, 0x9FFF)) for _ in range(4_000))  # what does not compress
    write_all(
        sink_of(server, table=name),
        table(tmp_path),
        [Batch(1, 1, (row(f"{long}1", book(1)), row(f"{long}2", book(2))))],
    )
    assert query(server, f'SELECT count(*) FROM "{name}"') == [(2,)]


@pytest.mark.parametrize(
    "refusal",
    [
        "RAISE EXCEPTION 'none of these'",
        "RAISE EXCEPTION 'none of these' USING ERRCODE = 'check_violation'",
        "RAISE EXCEPTION 'none of these' USING ERRCODE = 'with_check_option_violation'",
        "ASSERT false, 'none of these'",
        "PERFORM 1 / 0",
        "PERFORM 'x'::int",
    ],
)
def test_a_row_that_a_trigger_refuses_is_left_out_alone(server: str, name: str, tmp_path: Path, refusal: str) -> None:
    for number in range(3):
        (tmp_path / f"{number}.html").write_bytes(page(f"Item {number}", []).body)
    query(server, f'CREATE TABLE "{name}" (name text, _key text PRIMARY KEY, _rest json)')
    query(
        server,
        f"""CREATE FUNCTION "of {name}"() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF NEW.name = 'Item 1' THEN {refusal}; END IF; RETURN NEW; END $$""",
    )
    query(server, f'CREATE TRIGGER no BEFORE INSERT ON "{name}" FOR EACH ROW EXECUTE FUNCTION "of {name}"()')
    pipeline = items("", sinks=[{"postgres": {"url": server, "table": name}}, {"jsonl": "out.jsonl"}])
    pipeline["source"] = {"files": "*.html"}
    said: list[str] = []
    summary = ran(pipeline, tmp_path, report=said.append)
    assert summary.rejected == 1
    assert [use.rows for use in summary.sinks] == [2, 3]
    assert query(server, f'SELECT name FROM "{name}" ORDER BY name') == [("Item 0",), ("Item 2",)]
    (line,) = said
    assert "1.html#0: the row is not in postgresql://" in line
    assert PASSWORD not in line


def test_a_table_that_takes_no_row_ends_the_run(server: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "0.html").write_bytes(page("Item 0", []).body)
    query(server, f'CREATE TABLE "{name}" (name text, _key text PRIMARY KEY, _rest json)')
    query(server, f'CREATE RULE no AS ON INSERT TO "{name}" DO INSTEAD SELECT 1')
    pipeline = items("", sinks=[{"postgres": {"url": server, "table": name}}])
    pipeline["source"] = {"files": "*.html"}
    with pytest.raises(OutputError, match="the database refuses"):
        ran(pipeline, tmp_path)
