"""`fetchly train` from pages to an adapter, on a tiny model, through the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fetchly.cli.app import run
from fetchly_llm.adapter import read_adapter_config
from tests.support.tiny_dataset import build
from tests.support.tiny_model import make_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    folder = tmp_path_factory.mktemp("data")
    build(folder / "notices")
    examples, prepared = folder / "examples.jsonl.gz", folder / "tokens.safetensors"
    lab = ["lab", "examples", str(folder / "notices"), "--split", "dev", "--variants", "2", "-q"]
    assert run([*lab, "--model", str(model), "-o", str(examples)]) == 0
    assert run(["train", "prepare", str(examples), "-o", str(prepared), "--model", str(model)]) == 0
    return prepared


def sft(tokens: Path, model: Path, out: Path, *more: str) -> list[str]:
    return ["train", "sft", str(tokens), "-o", str(out), "--model", str(model), "--rank", "2", "--batch", "2", *more]


def test_from_pages_to_an_adapter(
    tokens: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(sft(tokens, model, out, "--steps", "3", "--held-out", str(tokens), "--look-every", "2")) == 0
    said = capsys.readouterr()
    assert said.out.strip() == str(out / "adapter.safetensors")
    assert "step 3 of 3: loss" in said.err
    assert "held out" in said.err
    config = read_adapter_config(out / "adapter.safetensors")
    assert config.rank == 2
    assert config.prompt_format == json.loads((out / "settings.json").read_text())["format"]
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert len((out / "log.jsonl").read_text().splitlines()) == 3


def test_sigterm_leaves_a_checkpoint_to_go_on_from(tokens: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = sft(tokens, model, out, "--steps", "100000", "--decay", "0")
    with subprocess.Popen([sys.executable, "-m", "fetchly", *command], stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not (out / "log.jsonl").exists() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "INTERRUPTED" in said
    assert "--resume" in said
    done = len((out / "log.jsonl").read_text().splitlines())
    assert done
    assert run(sft(tokens, model, out, "--steps", str(done + 2), "--decay", "0", "--resume", "-q")) == 0
    steps = [json.loads(line)["step"] for line in (out / "log.jsonl").read_text().splitlines()]
    assert steps == list(range(done + 2))


def test_a_stop_before_the_run_began_does_not_speak_of_resuming(
    tokens: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fetchly.cli.engine.train_sft", stop)
    assert run(sft(tokens, model, tmp_path / "run")) == 130
    said = capsys.readouterr().err
    assert "begin again" in said
    assert "--resume" not in said


@pytest.mark.skipif(sys.platform == "win32", reason="its processes have no such limit")
@pytest.mark.parametrize("command", ["prepare", "sft", "merge"])
def test_a_full_disk_is_one_line_and_leaves_no_part(tokens: Path, model: Path, tmp_path: Path, command: str) -> None:
    out = tmp_path / "out"
    examples = tokens.parent / "examples.jsonl.gz"
    if command == "merge":
        assert run(sft(tokens, model, tmp_path / "run", "--steps", "1", "-q")) == 0
    arguments = {
        "prepare": ["train", "prepare", str(examples), "-o", str(out), "--model", str(model)],
        "sft": sft(tokens, model, out, "--steps", "1", "-q"),
        "merge": [
            "train",
            "merge",
            str(tmp_path / "run" / "adapter.safetensors"),
            "-o",
            str(out),
            "--model",
            str(model),
        ],
    }[command]
    blocks = "1" if command == "prepare" else "40"  # of 512 or 1,024 bytes a file
    limited = ["sh", "-c", f'ulimit -f {blocks} && exec "$@"', "sh", sys.executable, "-m", "fetchly", *arguments]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "OUTPUT_FAILED" in done.stderr.splitlines()[-1]
    left = [file.name for file in (out if command == "sft" else tmp_path).rglob("*")]
    assert not [name for name in left if name.startswith((".checkpoint", ".adapter", ".out"))]
    assert command == "sft" or not out.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["train", "prepare", "nowhere.jsonl", "-o", "{tmp}/t"], 1, "there is no such file"),
        (["train", "prepare", "{tokens}", "-o", "{tmp}/no/t"], 2, "its folder does not exist"),
        (["train", "prepare", "{tokens}", "-o", "{tokens}"], 2, "exists already"),
        (["train", "prepare", "{tokens}", "-o", "{tmp}/t", "--take", "a=x"], 2, "is not SET=N"),
        (["train", "prepare", "{tokens}", "-o", "{tmp}/t", "--model", "{model}"], 2, "not JSON"),
        (["train", "sft", "{model}/config.json", "-o", "{tmp}/r", "--model", "{model}"], 2, "no prepared examples"),
        (["train", "sft", "{tokens}", "-o", "{tmp}/r", "--model", "{model}", "--resume"], 2, "no run to go on with"),
        (["train", "sft", "{tokens}", "-o", "{tmp}/r", "--model", "{other}"], 2, "prepared for another model"),
        (["train", "sft", "{tokens}", "-o", "{tokens}", "--model", "{model}"], 1, "cannot be written"),
        (["train", "sft", "{tokens}", "-o", "{tokens}/r", "--model", "{model}"], 1, "cannot be written"),
        (["train", "sft", "{tokens}", "-o", "{tmp}/r", "--model", "{model}", "--epochs", "inf"], 2, "must be a number"),
        (
            ["train", "sft", "{tokens}", "-o", "{tmp}/r", "--model", "{model}", "--threads", "999999"],
            2,
            "from 1 to 256",
        ),
    ],
)
def test_what_cannot_be_is_one_line_and_the_right_code(
    tokens: Path,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    other = make_tiny_model(tmp_path / "other", seed=1)
    places = {"tmp": tmp_path, "tokens": tokens, "model": model, "other": other}
    assert run([part.format(**places) for part in arguments]) == code
    said = capsys.readouterr().err.strip()
    assert words in said
    assert len(said.splitlines()) == 1
