"""A training run on a tiny model: it learns, goes on exactly where it was stopped, and refuses what does not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from fetchly_llm.adapter import read_adapter
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.errors import RequestInvalid, WeightsMismatch
from fetchly_llm.training.loop import TrainingProgress
from fetchly_llm.training.run_folder import RunFolder
from fetchly_llm.training.sft import SftLearner, SftSettings
from fetchly_llm.training.token_file import TokenExample, TokenExamples
from tests.support.tiny_model import make_tiny_model

CPU = torch.device("cpu")
SETTINGS = SftSettings(steps=6, rank=4, alpha=8.0, rate=2e-2, batch=3, warmup=2, decay=0.5, micro_tokens=64)
BASE = "ab" * 32


class Killed(Exception):
    """Stands for whatever ends a run from outside."""


def _interrupted(*_: object) -> float:
    raise KeyboardInterrupt


def examples(count: int = 7, seed: int = 5) -> TokenExamples:
    """Sequences whose last four tokens are to be learnt: they repeat the first four."""
    drawn = np.random.default_rng(seed)
    found = []
    for number in range(count):
        prompt = drawn.integers(3, 300, size=8 + number).astype(np.int32)
        tokens = np.concatenate([prompt, prompt[:4]])
        chosen = np.zeros(len(tokens), np.bool_)
        chosen[len(prompt) :] = [True, True, False, True]
        found.append(TokenExample(f"a/{number}", "a", tokens, len(prompt), chosen))
    return TokenExamples("model", "format", tuple(found))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("tiny"))


def learner(folder: Path, settings: SftSettings = SETTINGS, data: TokenExamples | None = None) -> SftLearner:
    data = data or examples()
    return SftLearner(folder, BASE, data, settings, CPU, held_out=data.examples[:2])


def _held_out(job: SftLearner) -> float:
    found = job.held_out()
    assert found is not None
    return found[0]


def test_it_learns_its_examples_by_heart_and_the_adapter_says_what_it_is(folder: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=60, batch=7)
    job = learner(folder, settings)
    before = _held_out(job)
    job.loop.run(RunFolder(tmp_path / "run"), look_every=20)
    assert _held_out(job) < 0.3 * before
    log = RunFolder(tmp_path / "run").log()
    assert [line["step"] for line in log] == list(range(60))
    assert [line["step"] for line in log if "held_out" in line] == [19, 39, 59]
    adapter = read_adapter(tmp_path / "run" / "adapter.safetensors", read_model_config(folder))
    assert (adapter.config.base, adapter.config.prompt_format) == (BASE, "format")
    assert (adapter.config.rank, adapter.config.alpha) == (4, 8.0)
    assert any(np.any(value) for name, value in adapter.tensors.items() if name.endswith("lora_B"))


def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    whole, parts = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "parts")
    learner(folder).loop.run(whole)

    def stop(progress: TrainingProgress) -> None:
        if progress.step in (2, 5):
            raise Killed

    with pytest.raises(Killed):
        learner(folder).loop.run(parts, on_step=stop)
    with pytest.raises(Killed):
        learner(folder).loop.run(parts, resume=True, on_step=stop)
    learner(folder).loop.run(parts, resume=True)
    names = ("adapter.safetensors", "checkpoint.safetensors")
    assert all((whole.path / name).read_bytes() == (parts.path / name).read_bytes() for name in names)
    timeless = [[{**line, "seconds": 0} for line in run.log()] for run in (whole, parts)]
    assert timeless[0] == timeless[1]


def test_a_run_goes_on_from_an_adapter_as_if_it_were_its_own(folder: Path, tmp_path: Path) -> None:
    first = RunFolder(tmp_path / "first")
    learner(folder, replace(SETTINGS, steps=30, batch=7)).loop.run(first)
    start = tmp_path / "first" / "adapter.safetensors"
    learnt = _held_out(learner(folder))
    job = SftLearner(folder, BASE, examples(), replace(SETTINGS, steps=2), CPU, examples().examples[:2], start)
    assert _held_out(job) == learnt, "nothing is learnt yet, and the adapter is taken when the run begins"
    job.begin()
    assert _held_out(job) < 0.5 * learnt
    second = RunFolder(tmp_path / "second")
    job.loop.run(second)
    assert second.log()[0]["loss"] < 0.5 * first.log()[0]["loss"]
    assert json.loads((second.path / "settings.json").read_text())["start"]


def test_a_resumed_run_does_not_begin_anew_from_its_adapter(folder: Path, tmp_path: Path) -> None:
    learner(folder).loop.run(RunFolder(tmp_path / "first"))
    start = tmp_path / "first" / "adapter.safetensors"
    whole, parts = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "parts")

    def job() -> SftLearner:
        return SftLearner(folder, BASE, examples(), SETTINGS, CPU, (), start)

    def stop(progress: TrainingProgress) -> None:
        if progress.step == 3:
            raise Killed

    job().loop.run(whole)
    with pytest.raises(Killed):
        job().loop.run(parts, on_step=stop)
    job().loop.run(parts, resume=True)
    assert (whole.path / "adapter.safetensors").read_bytes() == (parts.path / "adapter.safetensors").read_bytes()
    other = tmp_path / "other.safetensors"
    other.write_bytes((parts.path / "adapter.safetensors").read_bytes())
    with pytest.raises(RequestInvalid, match="start"):
        SftLearner(folder, BASE, examples(), SETTINGS, CPU, (), other).loop.run(parts, resume=True)


@pytest.mark.parametrize("change", [{"rank": 2}, {"alpha": 4.0}])
def test_an_adapter_of_another_shape_is_no_start(folder: Path, tmp_path: Path, change: dict[str, float]) -> None:
    learner(folder, replace(SETTINGS, steps=1)).loop.run(RunFolder(tmp_path / "run"))
    start = tmp_path / "run" / "adapter.safetensors"
    (name,) = change
    with pytest.raises((RequestInvalid, WeightsMismatch), match=name) as caught:
        SftLearner(folder, BASE, examples(), replace(SETTINGS, **change), CPU, (), start)  # type: ignore[arg-type]
    assert caught.value.hint == f"train with --{name} {4 if name == 'rank' else 8.0}"


def test_an_adapter_of_another_model_is_no_start(folder: Path, tmp_path: Path) -> None:
    learner(folder, replace(SETTINGS, steps=1)).loop.run(RunFolder(tmp_path / "run"))
    start = tmp_path / "run" / "adapter.safetensors"
    with pytest.raises(RequestInvalid, match="base"):
        SftLearner(folder, "cd" * 32, examples(), SETTINGS, CPU, (), start)
    other = replace(examples(), format="2")
    with pytest.raises(RequestInvalid, match="prompt_format"):
        SftLearner(folder, BASE, other, SETTINGS, CPU, (), start)


def test_lines_after_the_checkpoint_and_a_torn_one_are_dropped(folder: Path, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")

    def stop(progress: TrainingProgress) -> None:
        if progress.step == 3:
            raise Killed

    with pytest.raises(Killed):
        learner(folder).loop.run(run, on_step=stop)
    run.add({"step": 3, "loss": 99.0})  # a kill -9 came between the step and the next checkpoint
    with (run.path / "log.jsonl").open("a") as stream:
        stream.write('{"step": 4, "lo')
    learner(folder).loop.run(run, resume=True)
    assert [line["step"] for line in run.log()] == list(range(6))
    assert all(line["loss"] < 99 for line in run.log())


def test_the_shape_of_micro_batches_changes_nothing_but_rounding(folder: Path, tmp_path: Path) -> None:
    one, many = RunFolder(tmp_path / "one"), RunFolder(tmp_path / "many")
    learner(folder, replace(SETTINGS, steps=2, micro_tokens=10_000)).loop.run(one)
    learner(folder, replace(SETTINGS, steps=2, micro_tokens=1)).loop.run(many)
    for left, right in zip(one.log(), many.log(), strict=True):
        assert left["loss"] == pytest.approx(right["loss"], rel=1e-4)


def test_a_begun_run_is_never_overwritten(folder: Path, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    learner(folder).loop.run(run)
    with pytest.raises(RequestInvalid, match="holds a run already"):
        learner(folder).loop.run(run)


def test_another_setting_is_refused_by_name_and_more_steps_are_not(folder: Path, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    constant = replace(SETTINGS, decay=0.0)
    learner(folder, replace(constant, steps=2)).loop.run(run)
    with pytest.raises(RequestInvalid, match=r"has rate 0\.02, not 0\.01"):
        learner(folder, replace(constant, rate=1e-2)).loop.run(run, resume=True)
    learner(folder, replace(constant, steps=4)).loop.run(run, resume=True)
    assert [line["step"] for line in run.log()] == [0, 1, 2, 3]


@pytest.mark.parametrize("change", [{"steps": 3}, {"steps": 12}, {"decay": 0.1}, {"decay": 0.9}])
def test_steps_and_decay_stay_once_the_old_or_the_new_decay_has_begun(
    folder: Path, tmp_path: Path, change: dict[str, float]
) -> None:
    run = RunFolder(tmp_path / "run")

    def stop(progress: TrainingProgress) -> None:
        if progress.step == 4:
            raise Killed

    with pytest.raises(Killed):
        learner(folder).loop.run(run, on_step=stop)
    before = {file.name: file.read_bytes() for file in run.path.iterdir()}
    with pytest.raises(RequestInvalid, match=f"has {next(iter(change))} "):
        learner(folder, replace(SETTINGS, **change)).loop.run(run, resume=True)  # type: ignore[arg-type]
    assert {file.name: file.read_bytes() for file in run.path.iterdir()} == before


def test_a_run_goes_on_with_the_same_examples_alone(folder: Path, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    learner(folder).loop.run(run)
    with pytest.raises(RequestInvalid, match="has data "):
        learner(folder, data=examples(seed=6)).loop.run(run, resume=True)


def test_a_run_that_was_stopped_within_its_first_step_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stopped = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "stopped")
    learner(folder).loop.run(whole)
    with monkeypatch.context() as patched:
        patched.setattr(SftLearner, "_loss", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner(folder).loop.run(stopped)
    learner(folder).loop.run(stopped, resume=True)
    assert (whole.path / "checkpoint.safetensors").read_bytes() == (
        stopped.path / "checkpoint.safetensors"
    ).read_bytes()


def test_a_look_that_was_stopped_leaves_its_step_made_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stopped = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "stopped")
    learner(folder).loop.run(whole, look_every=2)
    with monkeypatch.context() as patched:
        patched.setattr(SftLearner, "held_out", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner(folder).loop.run(stopped, look_every=2)
    learner(folder).loop.run(stopped, look_every=2, resume=True)
    assert (whole.path / "checkpoint.safetensors").read_bytes() == (
        stopped.path / "checkpoint.safetensors"
    ).read_bytes()
    assert [line["step"] for line in stopped.log()] == list(range(6))


def test_a_token_that_the_model_lacks_is_refused_before_the_run(folder: Path) -> None:
    data = examples()
    data.examples[3].tokens[2] = 320
    with pytest.raises(RequestInvalid, match="a/3 has a token that the model's vocabulary of 320 lacks"):
        learner(folder, data=data)


def test_one_process_has_a_run_and_what_a_crash_left_is_removed(folder: Path, tmp_path: Path) -> None:
    run, other = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    with run.held(resume=False):
        learner(folder).loop.run(run)
        with pytest.raises(RequestInvalid, match="another process"), other.held(resume=True):
            pass
    left = run.path / ".adapter.safetensors.0123abcd"
    left.write_bytes(b"half")
    with other.held(resume=True):
        learner(folder).loop.run(other, resume=True)
    assert not left.exists()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [("settings.json", "[1]", "no object"), ("log.jsonl", "garbage\n", "garbled"), ("log.jsonl", "{}\n", "garbled")],
)
def test_a_damaged_run_is_refused(folder: Path, tmp_path: Path, name: str, text: str, words: str) -> None:
    run = RunFolder(tmp_path / "run")
    learner(folder).loop.run(run)
    (run.path / name).write_text(text)
    with pytest.raises(RequestInvalid, match=words):
        learner(folder).loop.run(run, resume=True)


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder(tmp_path / "run")
    learner(folder).loop.run(run)
    before = (run.path / "checkpoint.safetensors").read_bytes()

    def full(tensors: object, file: Path, metadata: object) -> None:
        file.write_bytes(b"half")
        raise SafetensorError("no space left")

    monkeypatch.setattr("fetchly_llm.training.run_folder.save_file", full)
    with pytest.raises(OSError, match="no space left"):
        learner(folder).loop.run(run, resume=True)
    assert (run.path / "checkpoint.safetensors").read_bytes() == before
    assert not list(run.path.glob(".checkpoint*"))


def test_a_loss_that_is_no_number_ends_the_run(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestInvalid, match="lower --rate"):
        learner(folder, replace(SETTINGS, steps=40, rate=1e30, warmup=0)).loop.run(RunFolder(tmp_path / "run"))


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 0},
        {"rank": 0},
        {"seed": -1},
        {"seed": 1 << 63},
        {"rate": 0.0},
        {"alpha": float("nan")},
        {"decay": 1.5},
    ],
)
def test_settings_that_cannot_be(folder: Path, change: dict[str, float]) -> None:
    with pytest.raises(RequestInvalid):
        learner(folder, replace(SETTINGS, **change))  # type: ignore[arg-type]
