"""The rules of the house that no linter checks."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(
    path for folder in ("fetchly", "llm/fetchly_llm", "tests", "examples") for path in (ROOT / folder).rglob("*.py")
)
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "misc", "base"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_one_noun(path: Path) -> None:
    assert path.stem not in FORBIDDEN_NAMES
    assert len(path.read_text("utf-8").splitlines()) <= 400


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if "tests" not in path.parts], ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_module_opens_with_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))


def loaded_by(statement: str) -> set[str]:
    program = f"import sys\n{statement}\nprint(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    return {name.split(".")[0] for name in answer.stdout.split()}


@pytest.mark.parametrize(
    "statement",
    [
        "import fetchly",
        "import fetchly.cli.app",
        "import fetchly.sdk",
        "import fetchly_llm",
        "import fetchly_llm.engine",
        "import fetchly_llm.grammar.compiler",
        "import fetchly_llm.store.model_store",
        "import fetchly_llm.backends",
    ],
)
def test_torch_is_not_loaded_before_it_is_needed(statement: str) -> None:
    # An import contract does not see what a parent package's __init__ pulls in; this does.
    assert not loaded_by(statement) & {"torch", "transformers", "playwright"}


def test_the_help_loads_none_of_the_heavy_libraries() -> None:
    heavy = {"pydantic", "numpy", "httpx2", "selectolax", "llguidance", "tokenizers", "babel", "huggingface_hub"}
    assert not loaded_by("import fetchly.cli.app") & heavy


def test_ci_runs_the_command_of_the_readme() -> None:
    commands = re.findall(r"^    (\./install\.sh.*)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
