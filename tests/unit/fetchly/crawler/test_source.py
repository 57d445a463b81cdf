"""What a user may name: a URL, a file, standard input."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from fetchly.crawler.source import is_url, open_target
from fetchly.errors import FetchError, PolicyRefused
from fetchly.goods import Page


class Recorder:
    def __init__(self) -> None:
        self.urls: list[str] = []

    def fetch(self, url: str) -> Page:
        self.urls.append(url)
        return Page(url, url, 200, (), b"<p>x")


class Never:
    def fetch(self, url: str) -> Page:
        raise AssertionError("no request was wanted")


def test_a_url_is_fetched() -> None:
    recorder = Recorder()
    assert open_target("HTTPS://example.org/a", recorder).status == 200
    assert recorder.urls == ["HTTPS://example.org/a"]


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "ä page#1.html"
    file.write_bytes(b"<p>\xff\x00")
    for target in (str(file), file.as_uri(), file.as_uri().replace("file://", "file://localhost")):
        page = open_target(target, Never())
        assert page.body == b"<p>\xff\x00"
        assert page.requested == target
        assert page.url == file.as_uri()
        assert page.status is None
        assert page.media_type is None


def test_standard_input() -> None:
    page = open_target("-", Never(), stdin=io.BytesIO(b"<p>x"))
    assert (page.body, page.url, page.requested) == (b"<p>x", None, "-")


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("missing.html", "FILE_MISSING", "check the path"),
        ("www.example.org/x", "FILE_MISSING", "did you mean https://www.example.org/x?"),
        ("localhost:8000", "FILE_MISSING", "did you mean http://localhost:8000?"),
        (".", "NOT_A_FILE", "directory"),
        ("/dev/null", "NOT_A_FILE", "pipe it in: fetchly extract - --schema SCHEMA < FILE"),
        ("", "BAD_URL", "empty"),
        ("file:///no/such/page", "FILE_MISSING", "check the path"),
        ("a\0b", "FILE_UNREADABLE", "cannot be read"),
        ("x" * 5000, "FILE_UNREADABLE", "cannot be read"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(
    target: str, code: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FetchError) as failed:
        open_target(target, Never())
    assert failed.value.code == code
    assert words in failed.value.line()
    assert failed.value.exit_code == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    file = tmp_path / "p.html"
    file.write_bytes(b"x")
    file.chmod(0)
    with pytest.raises(FetchError) as failed:
        open_target(str(file), Never())
    assert failed.value.code == "FILE_UNREADABLE"


@pytest.mark.parametrize("target", ["ftp://h/x", "data:text/html,x", "file://server/share/x"])
def test_other_schemes_are_refused(target: str) -> None:
    with pytest.raises(PolicyRefused):
        open_target(target, Never())


def test_a_file_named_like_a_scheme_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes:1.html").write_bytes(b"x")
    assert open_target("notes:1.html", Never()).body == b"x"
    assert not is_url("C:/page.html")


def test_size_is_bounded(tmp_path: Path) -> None:
    file = tmp_path / "big.html"
    file.write_bytes(b"x" * 101)
    for target, stdin in ((str(file), None), ("-", io.BytesIO(b"x" * 101))):
        with pytest.raises(FetchError) as failed:
            open_target(target, Never(), stdin=stdin, max_bytes=100)
        assert failed.value.code == "BODY_TOO_LARGE"
