"""Files in stores: S3 as moto serves it on loopback, and what goes wrong there."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import fsspec
import pyarrow.parquet
import pytest
from moto.server import ThreadedMotoServer

from fetchly.errors import ConfigurationError, OutputError
from fetchly.sinks.opening import open_sink
from fetchly.sinks.options import SinkOptions
from fetchly.sinks.sink import Sink, Table
from tests.support.sinks import SCHEMA, Bench, batches, write_all

SECRET = "s3cret-of-the-tests"


@pytest.fixture(scope="module")
def storage_options() -> Iterator[dict[str, Any]]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"key": "tests", "secret": SECRET, "endpoint_url": f"http://{host}:{port}"}
    fsspec.filesystem("s3", **options).mkdir("bucket", create_parents=True)
    yield options
    server.stop()


def sink_of(kind: str, path: str, options: dict[str, Any], **more: Any) -> Sink:
    return open_sink(SinkOptions.model_validate({kind: {"path": path, "storage_options": options, **more}}))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_an_object_appears_whole_at_the_end_and_equals_the_file(
    kind: str, storage_options: dict[str, Any], tmp_path: Path
) -> None:
    bench = Bench(kind, tmp_path, None)
    write_all(bench.sink(), bench.table(), batches(60))
    path = f"s3://bucket/folder/{kind}"
    table = Table("books", SCHEMA, "run", "settings", tmp_path)
    store = fsspec.filesystem("s3", **storage_options)
    sink = sink_of(kind, path, storage_options)
    sink.open(table, resume=False)
    for batch in batches(60)[:10]:
        sink.write(batch)
    sink.close()  # interrupted
    store.invalidate_cache()
    assert not store.exists(path)
    assert write_all(sink_of(kind, path, storage_options), table, batches(60), resume=True) == 30
    store.invalidate_cache()
    content = store.cat(path)
    if kind == "parquet":
        assert pyarrow.parquet.read_table(io.BytesIO(content)).to_pylist() == bench.content()
    else:
        assert content == bench.bytes()
    with pytest.raises(ConfigurationError, match="holds something already") as caught:
        sink_of(kind, path, storage_options).open(table, resume=False)
    assert caught.value.where == path
    replaced = sink_of(kind, path, storage_options, existing="replace")
    write_all(replaced, table, [])
    store.invalidate_cache()
    assert store.cat(path) != content


def test_a_store_that_refuses_says_what_and_where_without_its_secrets(
    storage_options: dict[str, Any], tmp_path: Path
) -> None:
    table = Table("books", SCHEMA, "run", "settings", tmp_path)
    sink = sink_of("jsonl", "s3://absent/a", storage_options)
    sink.open(table, resume=False)
    with pytest.raises(OutputError, match="the store refuses") as caught:
        sink.finish()
    sink.close()
    assert caught.value.where == "s3://absent/a"
    assert SECRET not in caught.value.line()
    for path in ("nosuch://x/a", "s3://me:hidden-word@bucket"):
        with pytest.raises((OutputError, ConfigurationError)) as refused:
            sink_of("jsonl", path, {"secret": SECRET}).open(table, resume=False)
        assert "hidden-word" not in refused.value.line()
        assert SECRET not in refused.value.line()


def test_a_store_that_quotes_a_signed_url_shows_no_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(system: Any, path: str) -> bool:
        raise OSError(f"403 for {path}, that is {unquote(path)}")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.exists", refuse)
    sink = sink_of("jsonl", "memory://x/a?part=3&sig=hidden%2Fword", {})
    with pytest.raises(OutputError) as caught:
        sink.open(Table("books", SCHEMA, "run", "settings", tmp_path), resume=False)
    assert caught.value.where == "memory://x/a?part=3&sig=***"
    assert "403 for /x/a?part=3&sig=***, that is /x/a?part=3&sig=***" in caught.value.line()


def test_a_failed_upload_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench("parquet_store", tmp_path, None, options={"existing": "replace"})
    store = fsspec.filesystem("memory")
    store.pipe(bench.path, b"old")
    sink = bench.sink()
    sink.open(bench.table(), resume=False)
    sink.write(batches(6)[0])

    def broken(*_: Any) -> None:
        raise OSError("the line is dead")

    with monkeypatch.context() as patch:
        patch.setattr("fetchly.sinks.parquet.ParquetRows._table", broken)
        with pytest.raises(OutputError, match="the line is dead"):
            sink.finish()
    sink.close()
    assert store.cat(bench.path) == b"old"
    assert write_all(bench.sink(), bench.table(), batches(6), resume=True) == 3
    assert bench.names()


def test_a_file_url_is_a_path(tmp_path: Path) -> None:
    bench = Bench("jsonl", tmp_path, None)
    write_all(bench.sink(), bench.table(), batches(6))
    (tmp_path / "b").mkdir()
    table = Table("books", SCHEMA, "run", "settings", tmp_path)
    write_all(sink_of("jsonl", f"file://{tmp_path}/b/of%20mine", {}), table, batches(6))
    assert (tmp_path / "b" / "of mine").read_bytes() == bench.bytes()
