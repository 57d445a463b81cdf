"""Random pipeline files: loading ends soon, with a pipeline or with an error that has its place in the file."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchly.errors import ConfigurationError
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.published import file_schema

GOOD = Path(__file__).parents[1] / "data" / "pipelines" / "good"
ENVIRONMENT = {"DATABASE_URL": "postgresql://u:p@db.example.org/x", "A": "a", "N": "12", "EMPTY": ""}
SECONDS = 30  # thousands of times what it takes


def load(data: bytes, folder: Path) -> Pipeline | ConfigurationError:
    file = folder / "random.yaml"
    file.write_bytes(data)
    start = time.process_time()
    try:
        return Pipeline.from_yaml(file, environment=ENVIRONMENT)
    except ConfigurationError as error:
        check_place(error, data, file)
        return error
    finally:
        assert time.process_time() - start < SECONDS


def refusal(data: dict[str, Any], folder: Path) -> ConfigurationError | None:
    try:
        Pipeline.from_dict(data, folder=folder, environment=ENVIRONMENT)
    except ConfigurationError as error:
        return error
    return None


def check_place(error: ConfigurationError, data: bytes, file: Path) -> None:
    found = re.fullmatch(r"(.*):(\d+):(\d+)", error.where or "")
    assert found, error.line()
    assert found[1] == str(file) or Path(found[1]).is_relative_to(file.parent)
    if found[1] == str(file):
        lines = re.split("\r\n|[\r\n\x85\u2028\u2029]", data.decode("utf-8-sig", "replace"))
        assert 1 <= int(found[2]) <= len(lines)
        assert 1 <= int(found[3]) <= len(lines[int(found[2]) - 1]) + 1
    assert "\n" not in error.line()


def words() -> list[str]:
    """Every key that the file knows, and values that are nearly right."""
    schema = file_schema()
    nodes = [schema, *schema["$defs"].values()]
    keys = {key for node in nodes for part in (node, *node.get("anyOf", ())) for key in part.get("properties", {})}
    return sorted(keys)


KEYS = words()
VALUES = [
    "https://example.org/", "/shop/**", "**", "product", "product_list", "article", "items", "price", "out.jsonl",
    "../x", "/tmp/x.jsonl", "${A}", "${N}", "${NONE}", "${EMPTY:-2}", "$${A}", "${", "1s", "2GB", "75%", "auto", "ray",
    "quarantine", "1:30", "012", "yes", "stdout", "postgresql://h/d", "s3://bucket/a.csv", "http://[", "~", "\u2028",
]  # fmt: skip
ATOMS = st.one_of(
    st.sampled_from(VALUES), st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.dates()
)
TREES = st.recursive(
    ATOMS,
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=4)), parts, max_size=4),
    ),
    max_leaves=15,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pipelines")


@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
@settings(max_examples=100)
def test_any_bytes(data: bytes, folder: Path) -> None:
    load(data, folder)


@given(text=st.lists(st.sampled_from([*"{}[]:,-?&*!|>'\"#%@`\n \t", "a", "name: ", "<<", "---", "...", "&a ", "*a"])))
@settings(max_examples=150)
def test_any_signs_of_yaml(text: list[str], folder: Path) -> None:
    load("".join(text).encode(), folder)


@given(tree=TREES)
@settings(max_examples=100)
def test_any_values(tree: Any, folder: Path) -> None:
    load(yaml.safe_dump(tree).encode(), folder)


SECTIONS = {
    "name": st.one_of(st.just("x"), ATOMS),
    "source": st.fixed_dictionaries(
        {"seeds": st.one_of(st.just(["https://example.org/"]), TREES)},
        optional={
            key: TREES for key in ("files", "urls", "sitemap", "follow", "exclude", "depth", "actions", "scroll")
        },
    ),
    "extract": st.one_of(
        st.fixed_dictionaries(
            {"schema": st.one_of(st.just("product"), TREES)}, optional={"rows": ATOMS, "draft": TREES}
        ),
        st.lists(st.fixed_dictionaries({"match": TREES, "schema": TREES}), max_size=2),
    ),
    "transform": st.fixed_dictionaries(
        {}, optional={key: TREES for key in ("keep", "drop", "rename", "defaults", "set", "deduplicate")}
    ),
    "sinks": st.lists(
        st.one_of(TREES, st.dictionaries(st.sampled_from(["jsonl", "sqlite", "postgres", "stdout"]), TREES)), max_size=2
    ),
    "run": st.dictionaries(st.sampled_from(["delay", "error", "state", "workers", "memory_limit", "include"]), TREES),
}


@given(data=st.fixed_dictionaries(SECTIONS))
@settings(max_examples=150)
def test_values_in_their_sections(data: dict[str, Any], folder: Path) -> None:
    load(yaml.safe_dump(data, sort_keys=False).encode(), folder)
    error = refusal(data, folder)
    if error is not None:
        assert re.fullmatch(r"pipeline( /.*)?|random.yaml:\d+:\d+", error.where or "", re.DOTALL), error.line()


@given(
    name=st.sampled_from(sorted(file.name for file in GOOD.glob("*.yaml"))),
    at=st.floats(min_value=0, max_value=1),
    cut=st.integers(min_value=0, max_value=12),
    put=st.sampled_from(["", *VALUES, ":", "- ", "{", "]", "\n", "  ", "0", "&x ", "*x", "!!int "]),
)
@settings(max_examples=150)
def test_a_good_file_with_a_slip(name: str, at: float, cut: int, put: str, folder: Path) -> None:
    text = (GOOD / name).read_text("utf-8")
    begin = int(at * len(text))
    load((text[:begin] + put + text[begin + cut :]).encode(), folder)


EXPENSIVE = {
    "laughs": "".join(
        f"{b}: &{b} [{', '.join(['*' + a] * 20)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ),
    "aliases": "a: &a " + "x" * 1000 + "\nb: [" + "*a," * 110_000 + "]\n",
    "anchors": "".join(f"k{n}: &a{n} x\n" for n in range(10_000)),
    "brackets": "[" * 500_000,
    "braces": "{a: " * 100_000,
    "dashes": "- " * 300_000,
    "keys": "? " * 300_000,
    "one line": "a" * 1_000_000,
    "lines": "a\n" * 400_000,
    "many keys": "".join(f"k{n}: 1\n" for n in range(10_000)),
    "quotes": "name: '" + "''" * 400_000,
    "digits": "name: " + "9" * 900_000,
    "exponent": "name: x\nsource: {seeds: https://example.org/, limit: 1e9999}\nextract: {schema: product}\n",
    "blanks": "name: x\n" + " " * 900_000 + "\n",
    "comments": "#\n" * 500_000,
    "variables": "name: " + "${A}" * 50_000,
    "half variables": "name: " + "${" * 400_000,
    "globs": "name: x\nsource: {seeds: https://example.org/, follow: ["
    + "/*" * 50_000
    + "]}\nextract: {schema: product}\n",
    "large": " " * 3_000_000,
}


@pytest.mark.parametrize("name", EXPENSIVE)
def test_nothing_is_expensive(name: str, folder: Path) -> None:
    found = load(EXPENSIVE[name].encode(), folder)
    assert isinstance(found, ConfigurationError) or name == "globs"
