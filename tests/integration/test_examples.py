"""Every example runs, with the embedded model."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("[0-9]*.py"))


@pytest.mark.model
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_and_prints_what_it_promises(example: Path) -> None:
    answer = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=600)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip()
    assert "Traceback" not in answer.stderr
