"""Which browser is taken, where there are several or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from fetchly.crawler.chromium import ARGUMENTS, BrowserMissing, find_chromium, version_of


def program(path: Path, text: str = "#!/bin/sh\necho Chromium 1.2.3\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_configured_one_is_taken_and_never_replaced(tmp_path: Path) -> None:
    own = program(tmp_path / "own" / "chromium")
    system = program(tmp_path / "bin" / "chromium")
    assert find_chromium(str(own), {"PATH": str(system.parent)}) == own
    with pytest.raises(BrowserMissing, match="no such program") as missing:
        find_chromium(str(tmp_path / "nowhere"), {"PATH": str(system.parent)})
    assert (missing.value.code, missing.value.exit_code) == ("BROWSER_MISSING", 2)


def test_playwrights_own_comes_before_the_systems_and_the_newest_first(tmp_path: Path) -> None:
    system = program(tmp_path / "bin" / "google-chrome")
    environment = {"PATH": str(system.parent), "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path / "pw")}
    assert find_chromium(None, environment) == system
    program(tmp_path / "pw" / "chromium-999" / "chrome-linux" / "chrome")
    newest = program(tmp_path / "pw" / "chromium-1100" / "chrome-linux64" / "chrome")
    assert find_chromium(None, environment) == newest
    shell = program(tmp_path / "pw" / "chromium_headless_shell-1000" / "chrome-linux" / "headless_shell")
    assert find_chromium(None, environment) == shell


def test_a_file_that_does_not_run_is_none(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "chromium").chmod(0o644)
    with pytest.raises(BrowserMissing) as missing:
        find_chromium(None, {"PATH": str(tmp_path / "bin"), "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path)})
    assert "playwright install chromium" in missing.value.line()


def test_the_version_is_what_it_says(tmp_path: Path) -> None:
    assert version_of(program(tmp_path / "good")) == "Chromium 1.2.3"
    for text in ("#!/bin/sh\necho broken >&2; exit 1\n", "#!/bin/sh\n", "#!/nowhere\n"):
        with pytest.raises(BrowserMissing, match="does not start"):
            version_of(program(tmp_path / "bad", text))


def test_no_argument_opens_what_the_proxy_closes() -> None:
    names = {argument.partition("=")[0] for argument in ARGUMENTS}
    assert not names & {"--no-proxy-server", "--proxy-bypass-list", "--disable-web-security", "--no-sandbox"}
    assert "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1" in ARGUMENTS
