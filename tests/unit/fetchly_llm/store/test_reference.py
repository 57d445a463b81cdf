from __future__ import annotations

from pathlib import Path

import pytest

from fetchly_llm.errors import RequestInvalid
from fetchly_llm.store.reference import (
    HubReference,
    NameReference,
    PackageReference,
    PathReference,
    Reference,
    parse_reference,
)

PIN = "ab" * 32


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fetchly-135m", NameReference("fetchly-135m")),
        ("pypi:some-model==1.0/inside/m.gguf", PackageReference("some-model", "1.0", "inside/m.gguf")),
        (f"pypi:some-model==1.0/m.gguf#sha256={PIN}", PackageReference("some-model", "1.0", "m.gguf", PIN)),
        ("hf:Org/Name-1.5B", HubReference("Org/Name-1.5B")),
        ("hf:Org/Name@v1.0", HubReference("Org/Name", "v1.0")),
        ("./model", PathReference(Path("model"))),
        ("org/name", PathReference(Path("org/name"))),
        ("model.gguf", PathReference(Path("model.gguf"))),
        ("~/m", PathReference(Path("~/m").expanduser())),
    ],
)
def test_kinds(text: str, expected: Reference) -> None:
    assert parse_reference(text) == expected


@pytest.mark.parametrize("text", ["pypi:a==1/m.gguf", f"pypi:a==1/x/m.gguf#sha256={PIN}", "hf:a/b", "hf:a/b@main"])
def test_written_as_read(text: str) -> None:
    assert str(parse_reference(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "pypi:name/m.gguf",
        "pypi:name>=1/m.gguf",
        "pypi:name==1",
        "pypi:name==1/m.bin",
        "pypi:name==1//etc/m.gguf",
        "pypi:name==1/../m.gguf",
        "pypi:name==1/m.gguf#sha256=abc",
        "pypi:--index-url==1/m.gguf",
        "hf:name",
        "hf:a/b/c",
        "hf:a/b@",
        "",
        "  ",
    ],
)
def test_malformed(text: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        parse_reference(text)
    assert caught.value.hint
