"""Every malformed file of tests/data/pipelines/bad has its one line in errors.txt, to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from fetchly.errors import ConfigurationError
from fetchly.pipeline.pipeline import Pipeline

BAD = Path(__file__).parents[3] / "data" / "pipelines" / "bad"
FILES = sorted(path.name for path in BAD.glob("*.yaml"))
LINES = (BAD / "errors.txt").read_text("utf-8").splitlines()
ENVIRONMENT = {"SECRET": "hunter2 is the password", "SITE": "x"}


def test_there_is_a_line_for_each() -> None:
    assert len(FILES) == len(LINES) >= 25
    assert len(set(LINES)) == len(LINES)


@pytest.mark.parametrize(("name", "line"), list(zip(FILES, LINES, strict=True)), ids=FILES)
def test_its_error(name: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    with pytest.raises(ConfigurationError) as caught:
        Pipeline.from_yaml(name, environment=ENVIRONMENT)
    assert caught.value.line() == line
    assert caught.value.exit_code == 2
    assert "hunter2" not in line
    assert not (BAD / "pwned").exists()
