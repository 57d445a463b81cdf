from typing import Any

import pytest
from pydantic import ValidationError

from fetchly.sinks.opening import open_sink
from fetchly.sinks.options import FileSettings, PostgresSettings, SinkOptions

SECRET = "pa55word"


@pytest.mark.parametrize(
    ("entry", "kind", "place"),
    [
        ({"jsonl": "/out/a"}, "jsonl", "/out/a"),
        ({"csv": {"path": "/out/a", "evidence": True}}, "csv", "/out/a"),
        ({"parquet": "s3://bucket/a"}, "parquet", "s3://bucket/a"),
        ({"sqlite": "/out/a"}, "sqlite", "/out/a table records"),
        ({"sqlite": {"path": "/out/a", "table": "T"}}, "sqlite", "/out/a table t"),
        (
            {"postgres": f"postgresql://me:{SECRET}@[::1]/d"},
            "postgres",
            "postgresql://[::1]:5432/d table public.records",
        ),
        ({"stdout": None}, "stdout", "stdout"),
        ({"stdout": {"evidence": True, "schemas": ["book"]}}, "stdout", "stdout"),
        ("stdout", "stdout", "stdout"),
    ],
)
def test_an_entry_is_one_word_and_what_stands_under_it(entry: Any, kind: str, place: str) -> None:
    options = SinkOptions.model_validate(entry)
    assert (options.kind, str(options.settings.place)) == (kind, place)
    assert open_sink(options).place == options.settings.place


@pytest.mark.parametrize(
    ("entry", "where", "words"),
    [
        ({"jsnol": "a"}, ("jsnol",), "not permitted"),
        ({"jsonl": {"pth": "a"}}, ("jsonl", "pth"), "not permitted"),
        ({"jsonl": {"path": "a", "existing": "append"}}, ("jsonl", "existing"), "'refuse' or 'replace'"),
        ({"jsonl": ""}, ("jsonl", "path"), "match pattern"),
        ({"jsonl": "a\x00"}, ("jsonl", "path"), "match pattern"),
        ({"jsonl": "a", "csv": "b"}, (), "each an entry of its own"),
        ({"csv": None}, (), "each an entry of its own"),
        ({}, (), "each an entry of its own"),
        ("jsonl", ("jsonl", "path"), "required"),
        ({"sqlite": {"path": "a", "table": "sqlite_x"}}, ("sqlite", "table"), "not free"),
        ({"sqlite": {"path": "a", "table": "_fetchly_sinks"}}, ("sqlite", "table"), "not free"),
        ({"postgres": {"url": "postgresql://h/d", "table": "x" * 64}}, ("postgres", "table"), "63 bytes"),
        ({"postgres": {"table": "x"}}, ("postgres", "url"), "required"),
    ],
)
def test_what_is_wrong_is_said_where_it_is(entry: Any, where: tuple[str, ...], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SinkOptions.model_validate(entry)
    assert any(error["loc"] == where and words in error["msg"] for error in caught.value.errors())


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://me:{SECRET}@h/d",
        f"postgresql://me:{SECRET}/x@h/d",
        f"postgresql://me:12/{SECRET}@h/d",
        f"postgresql://me:12?{SECRET}@h/d",
        f"postgresql://me:12#{SECRET}@h/d",
        f"host=h password={SECRET}",
    ],
)
def test_a_url_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValidationError, match="must be postgresql://") as caught:
        SinkOptions.model_validate({"postgres": url})
    assert SECRET not in str(caught.value)


def test_no_secret_is_shown() -> None:
    postgres = SinkOptions.model_validate({"postgres": {"url": f"postgresql://me:{SECRET}@h/d", "schema": "s"}})
    assert isinstance(postgres.settings, PostgresSettings)
    assert postgres.settings.db_schema == "s"
    store = SinkOptions.model_validate({"csv": {"path": f"s3://me:{SECRET}@b/a", "storage_options": {"key": SECRET}}})
    assert isinstance(store.settings, FileSettings)
    assert SECRET not in f"{postgres!r}{postgres.settings.place}{store.settings.place}"
    assert SECRET not in repr(store).replace(f"s3://me:{SECRET}@b/a", "")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (f"https://me@h/a?token={SECRET}&part=3", "https://h/a?token=***&part=3"),
        (
            f"s3://b/a?versionId=7&X-Amz-Date=1&x-amz-signature={SECRET}",
            "s3://b/a?versionId=7&X-Amz-Date=***&x-amz-signature=***",
        ),
        (f"abfs://c/a?sv=2024&sig={SECRET}#x", "abfs://c/a?sv=2024&sig=***#x"),
        (
            f"https://h/a?X-Goog-Credential={SECRET}&AWSAccessKeyId={SECRET}",
            "https://h/a?X-Goog-Credential=***&AWSAccessKeyId=***",
        ),
        (f"https://h/a?pass%77ord={SECRET}&design=blue&empty=", "https://h/a?pass%77ord=***&design=blue&empty="),
        ("https://h/token/key=1", "https://h/token/key=1"),
    ],
)
def test_no_token_of_a_signed_url_is_in_a_place(path: str, place: str) -> None:
    assert str(FileSettings(path=path).place) == place
