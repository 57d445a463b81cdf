from pathlib import Path

import pytest

from fetchly.errors import ConfigurationError
from fetchly.settings import load_settings


def nowhere(tmp_path: Path) -> Path:
    return tmp_path / "none" / "config.yaml"


def test_environment_beats_project_file_beats_user_file_beats_default(tmp_path: Path) -> None:
    user = tmp_path / "user.yaml"
    user.write_text("model: user\nseed: 1\ntimeout: 5\n")
    (tmp_path / "fetchly.yaml").write_text("model: project\nseed: 2\n")
    settings = load_settings({"FETCHLY_MODEL": "environment"}, tmp_path, user)
    assert settings.model == "environment"
    assert settings.seed == 2
    assert settings.timeout == 5
    assert settings.attempts == 3


def test_a_project_file_is_found_from_a_folder_below(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.fetchly]\nschema_mode = "check"\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert load_settings({}, below, nowhere(tmp_path)).schema_mode == "check"


@pytest.mark.parametrize(
    ("environment", "yaml", "expected"),
    [
        ({"FETCHLY_MODLE": "x"}, "", "did you mean model?"),
        ({"FETCHLY_SEED": "minus one"}, "", "seed"),
        ({}, "temprature: 0.5", "did you mean temperature?"),
        ({}, "temperature: -3", "temperature"),
        ({}, "- model", "`setting: value` lines"),
        ({}, "model: [", "cannot be read"),
        ({}, "max_tokens: 0", "max_tokens"),
    ],
)
def test_wrong_settings_name_their_origin(
    tmp_path: Path, environment: dict[str, str], yaml: str, expected: str
) -> None:
    (tmp_path / "fetchly.yaml").write_text(yaml)
    with pytest.raises(ConfigurationError) as caught:
        load_settings(environment, tmp_path, nowhere(tmp_path))
    line = caught.value.line()
    assert expected in line
    assert "environment" in line if environment else "fetchly.yaml" in line
    assert caught.value.exit_code == 2


def test_other_variables_of_the_prefix_are_not_settings(tmp_path: Path) -> None:
    load_settings({"FETCHLY_MODELS": "/models", "HOME": "/root"}, tmp_path, nowhere(tmp_path))
