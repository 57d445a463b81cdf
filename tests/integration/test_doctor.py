"""`fetchly doctor`: what is here, and what `--draft auto` comes to with it."""

import re

import pytest

from fetchly.cli.app import run


@pytest.mark.model
def test_it_says_which_drafts_are_used_here_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "pull", "-q"]) == 0
    capsys.readouterr()
    assert run(["doctor"]) == 0
    lines = {line.split()[1]: line for line in capsys.readouterr().out.splitlines()}
    assert {"python", "torch", "model", "drafts"} <= lines.keys()
    pays = r"ok +drafts +forced,lookup,streams \(streams pay: .* ms a token with streams, .* without"
    does_not = r"ok +drafts +forced,lookup \(streams do not pay: |ok +drafts +forced,lookup \(on this back-end the cost"
    assert re.match(f"{pays}|{does_not}", lines["drafts"])


@pytest.mark.model
def test_a_model_without_streams_has_no_choice(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--model", "smollm2-135m-instruct"]) in (0, 6)  # 6: it is not here
    said = capsys.readouterr().out
    assert ("absent   model" in said) or "forced,lookup (the model has no speculative streams)" in said
