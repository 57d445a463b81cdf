import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fetchly.errors import ConfigurationError, DocumentError
from fetchly.lab.dataset import Dataset, check_names, check_scored
from tests.support.tiny_dataset import FERRY, RECORDS, SCHEMA, build, gold

GOOD = gold("ferry", {"title": "The ferry runs again"})


def refusal(folder: Path, **options: Any) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as raised:
        Dataset.open(folder, **options)
    assert raised.value.code == "DATASET_INVALID"
    assert raised.value.exit_code == 2
    return raised.value


def test_a_dataset_gives_records_pages_as_they_are_and_schemas(tmp_path: Path) -> None:
    dataset = Dataset.open(build(tmp_path / "notices"))
    by_id = {record.id: record for record in dataset.records()}
    assert dataset.name == "notices"
    assert set(by_id) == {"ferry", "market", "bridge", "empty"}
    page = dataset.page(by_id["ferry"])
    assert page.body == FERRY.encode()
    assert page.media_type == "text/html"
    assert dataset.schema(by_id["ferry"]).json == SCHEMA
    assert by_id["market"].structured
    assert not by_id["ferry"].structured
    assert by_id["market"].missing == ("price",)


def test_a_page_may_be_stored_without_compression(tmp_path: Path) -> None:
    folder = build(tmp_path, [GOOD])
    (folder / "html" / "ferry.html.gz").unlink()
    (folder / "html" / "ferry.html").write_bytes(b"plain")
    dataset = Dataset.open(folder)
    assert dataset.page(dataset.records()[0]).body == b"plain"


def test_a_limit_gives_the_same_sample_and_a_longer_one_contains_it(tmp_path: Path) -> None:
    dataset = Dataset.open(build(tmp_path))
    again = Dataset.open(build(tmp_path / "other", RECORDS[::-1]))
    assert [r.id for r in dataset.records(2)] == [r.id for r in dataset.records()][:2]
    assert [r.id for r in dataset.records()] == [r.id for r in again.records()]
    assert [r.id for r in dataset.records()] != [record["id"] for record in RECORDS]


def test_keys_of_ones_own_are_allowed_and_a_site_is_not_needed(tmp_path: Path) -> None:
    dataset = Dataset.open(build(tmp_path, [GOOD | {"remark": {"any": "thing"}, "set": "x"}]))
    assert dataset.records()[0].site == "ferry"


def test_schemas_are_found_beside_the_set_above_it_and_where_they_are_named(tmp_path: Path) -> None:
    folder = build(tmp_path / "data" / "notices", [GOOD])
    elsewhere = tmp_path / "elsewhere"
    (folder / "schemas").rename(elsewhere)
    hint = refusal(folder).hint
    assert hint is not None
    assert "--schemas" in hint
    Dataset.open(folder, schemas=elsewhere)
    (tmp_path / "eval").mkdir()
    elsewhere.rename(tmp_path / "eval" / "schemas")
    Dataset.open(folder)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "ferry"', "not JSON"),
        ('{"id": "ferry", "x": NaN}', "NaN"),
        ("[]", "dictionary"),
        (json.dumps({**GOOD, "id": ""}), "id: "),
        (json.dumps({**GOOD, "id": "../ferry"}), "cannot name a file"),
        (json.dumps({**GOOD, "vertical": "a/b"}), "cannot name a schema"),
        (json.dumps({**GOOD, "id": "nowhere"}), "html/nowhere.html.gz does not exist"),
        (json.dumps({**GOOD, "usable": ["title", "price"]}), "usable: 'price' is not in expected"),
        (json.dumps({**GOOD, "usable": ["title", "title"]}), "stands there twice"),
        (json.dumps({**GOOD, "usable": "title"}), "usable: "),
        (json.dumps({**GOOD, "missing": ["title"]}), "missing: 'title' has a value"),
        (json.dumps(GOOD), "stands in line 1 already"),
        (json.dumps({key: value for key, value in GOOD.items() if key != "expected"}), "expected: "),
    ],
)
def test_a_broken_line_is_named_with_its_number(tmp_path: Path, line: str, words: str) -> None:
    folder = build(tmp_path, [GOOD])
    file = folder / "dev.jsonl"
    file.write_text(file.read_text("utf-8") + "\n" + line + "\n", "utf-8")
    error = refusal(folder)
    assert words in error.message
    assert error.where == f"{file}:3"


def test_all_broken_lines_are_counted(tmp_path: Path) -> None:
    folder = build(tmp_path, [GOOD | {"id": "one"}, GOOD, GOOD | {"id": "two"}])
    error = refusal(folder)
    assert error.message.endswith("(and 1 more)")


def test_a_line_separator_inside_a_text_ends_no_line(tmp_path: Path) -> None:
    dataset = Dataset.open(build(tmp_path, [gold("ferry", {"title": "one\u2028two"})]))
    assert dataset.records()[0].expected["title"] == "one\u2028two"


def test_a_missing_folder_a_missing_split_and_an_empty_split_are_told_apart(tmp_path: Path) -> None:
    folder = build(tmp_path / "set", [])
    assert "no such folder" in refusal(tmp_path / "none").message
    error = refusal(folder, split="train")
    assert "no such split" in error.message
    assert error.hint == "splits here: dev"
    assert "no record" in refusal(folder).message


def test_a_schema_must_be_an_object_with_properties(tmp_path: Path) -> None:
    folder = build(tmp_path, [GOOD])
    (folder / "schemas" / "notice.json").write_text('{"type": "array"}', "utf-8")
    assert "no object with properties" in refusal(folder).message


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b"x" * 999, mtime=0)[:20]])
def test_a_page_that_cannot_be_unpacked_is_an_error_of_that_page(tmp_path: Path, content: bytes) -> None:
    folder = build(tmp_path, [GOOD])
    (folder / "html" / "ferry.html.gz").write_bytes(content)
    dataset = Dataset.open(folder)
    with pytest.raises(DocumentError) as raised:
        dataset.page(dataset.records()[0])
    assert raised.value.code == "PAGE_UNREADABLE"


def test_records_without_a_scored_field_are_counted_and_a_set_of_them_is_refused(tmp_path: Path) -> None:
    outside = gold("market", {"nofield": "x"})
    items = gold("bridge", {"items": [{"nofield": "x"}]}) | {"usable": ["items.nofield"]}
    missing = gold("empty", {}, missing=["price"])
    some = Dataset.open(build(tmp_path / "some", [GOOD, outside, items, missing]))
    assert some.unscored == 2
    assert check_scored([some]) == ["some: 2 of 4 records of the split have no field to score"]
    assert check_scored([Dataset.open(build(tmp_path / "good", [GOOD]))]) == []
    none = Dataset.open(build(tmp_path / "none", [outside, items]))
    with pytest.raises(ConfigurationError) as raised:
        check_scored([some, none])
    assert (raised.value.code, raised.value.exit_code) == ("NOTHING_TO_SCORE", 2)
    assert raised.value.where == str(none.folder / "dev.jsonl")


def test_fields_of_a_list_of_records_are_scored(tmp_path: Path) -> None:
    folder = build(tmp_path / "set", [gold("ferry", {"items": [{"name": "x"}]}) | {"usable": ["items.name"]}])
    items = {"type": "array", "items": {"properties": {"name": {"type": "string"}}}}
    (folder / "schemas" / "notice.json").write_text(json.dumps({"type": "object", "properties": {"items": items}}))
    assert Dataset.open(folder).unscored == 0


def test_a_set_is_named_once(tmp_path: Path) -> None:
    one, other = (Dataset.open(build(tmp_path / place / "notices")) for place in ("a", "b"))
    check_names([one])
    with pytest.raises(ConfigurationError, match="two sets are called 'notices'"):
        check_names([one, other])
    with pytest.raises(ConfigurationError, match="the set 'notices' is named twice"):
        check_names([one, Dataset.open(tmp_path / "a" / "notices" / ".." / "notices")])
