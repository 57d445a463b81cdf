"""Entries on disk: whole or not there, bounded, shared by processes, and of no harm when the disk is."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fetchly.disk_cache import CacheSize, DiskCache, open_caches
from fetchly.errors import ConfigurationError
from tests.support.cache_writer import KEYS, content_of, key_of


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_what_is_put_is_there_for_everybody(tmp_path: Path) -> None:
    one, other = DiskCache(tmp_path / "c", 1_000_000), DiskCache(tmp_path / "c", 1_000_000)
    assert one.get(b"key") is None
    one.put(b"key", b"content")
    one.put(b"other", b"")
    assert other.get(b"key") == b"content"
    assert other.get(b"other") == b""
    one.put(b"key", b"new content")
    assert other.get(b"key") == b"new content"
    other.remove(b"key")
    other.remove(b"never there")
    assert one.get(b"key") is None
    assert one.clear() == CacheSize(1, len(b"fetchly cache 1\n") + 32)
    assert one.size() == CacheSize(0, 0)


def test_an_entry_that_is_being_written_outlives_a_clearing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = DiskCache(tmp_path / "c", 1_000_000), DiskCache(tmp_path / "c", 1_000_000)
    move = os.replace

    def cleared_before(source: str, target: Path) -> None:
        assert other.clear() == CacheSize(0, 0)
        move(source, target)

    monkeypatch.setattr(os, "replace", cleared_before)
    one.put(b"key", b"content")
    assert one.get(b"key") == b"content"


def test_entries_are_for_their_owner_alone(tmp_path: Path) -> None:
    DiskCache(tmp_path / "c", 1_000_000).put(b"key", b"content")
    assert {path.stat().st_mode & 0o777 for path in files(tmp_path)} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "c").rglob("*") if path.is_dir()} == {0o700}


def test_whatever_is_damaged_is_not_there(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 10_000_000)
    rng = random.Random(1)

    def cut(raw: bytes) -> bytes:
        return raw[: rng.randrange(len(raw))]

    def flipped(raw: bytes) -> bytes:
        place = rng.randrange(len(raw))
        return raw[:place] + bytes([raw[place] ^ (1 << rng.randrange(8))]) + raw[place + 1 :]

    for damage in (cut, flipped, lambda raw: b"", lambda raw: raw + b"x", lambda raw: b"\0" * len(raw)):
        for number in range(12):
            cache.put(key_of(number), content_of(number))
        for path in files(tmp_path):
            path.write_bytes(damage(path.read_bytes()))
        assert [cache.get(key_of(number)) for number in range(12)] == [None] * 12
        assert files(tmp_path) == []
        cache.put(key_of(0), b"again")
        assert cache.get(key_of(0)) == b"again"


def test_an_entry_under_the_name_of_another_is_not_there(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1_000_000)
    cache.put(b"one", b"content of one")
    (one,) = files(tmp_path)
    cache.put(b"two", b"content of two")
    (two,) = set(files(tmp_path)) - {one}
    two.write_bytes(one.read_bytes())
    assert cache.get(b"two") is None
    assert cache.get(b"one") == b"content of one"


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 100_000)
    for number in range(7):
        cache.put(f"{number}".encode(), b"x" * 10_000)
        (path,) = [path for path in files(tmp_path) if path.stat().st_mtime > 10_000]
        os.utime(path, (1000 + number, 1000 + number))
    assert cache.get(b"0") is not None  # used now
    cache.put(b"7", b"x" * 10_000)
    cache.put(b"8", b"x" * 10_000)
    assert [number for number in range(9) if cache.get(str(number).encode()) is not None] == [0, 3, 4, 5, 6, 7, 8]
    assert cache.size().bytes <= 100_000


def test_the_bound_holds_at_every_moment(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 100_000)
    rng = random.Random(2)
    for number in range(100):
        cache.put(f"{number}".encode(), b"x" * rng.randrange(12_000))
        if number % 7 == 0:
            assert cache.size().bytes <= 100_000
    assert cache.size().bytes > 50_000


def test_what_is_larger_than_the_cache_is_not_kept_nor_is_what_it_replaces(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 10_000)
    cache.put(b"key", b"small")
    cache.put(b"key", b"x" * 10_000)
    assert cache.get(b"key") is None
    assert cache.size() == CacheSize(0, 0)


def test_what_a_killed_process_left_behind_is_swept(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1_000_000)
    cache.put(b"key", b"content")
    (entry,) = files(tmp_path)
    old, young = entry.with_name(".tmp-old"), entry.with_name(".tmp-young")
    old.write_bytes(b"x")
    young.write_bytes(b"x")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    assert cache.size().entries == 1
    assert files(tmp_path) == sorted([entry, young])


def writer(folder: Path, most: int, seed: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.cache_writer", str(folder), str(most), str(seed)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )


def test_two_processes_that_write_and_are_killed_leave_nothing_torn(tmp_path: Path) -> None:
    most = 400_000  # less than all entries take: they are evicted, too, while others write
    cache = DiskCache(tmp_path, most)
    found = 0
    for round_number in range(2):
        writers = [writer(tmp_path, most, seed=2 * round_number + one) for one in range(2)]
        for process in writers:
            assert process.stdout is not None
            for _ in range(6):
                assert process.stdout.readline()
        assert cache.size().bytes <= most
        for number in range(KEYS):
            content = cache.get(key_of(number))
            assert content is None or content == content_of(number)
            found += content is not None
        for process in writers:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        for number in range(KEYS):
            content = cache.get(key_of(number))
            assert content is None or content == content_of(number)
    assert found > 0


def test_a_folder_that_cannot_be_used_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigurationError) as failed:
        open_caches(tmp_path / "file")
    assert failed.value.code == "CACHE_UNUSABLE"
    assert str(tmp_path / "file") in failed.value.line()
    with pytest.raises(ConfigurationError, match="cache_mb is 0"):
        open_caches(tmp_path / "c", 0)


def test_a_disk_that_fills_up_is_told_once_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path, 1_000_000)

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        cache.put(b"one", b"content")
    cache.put(b"two", b"content")  # a second warning would be an error here
    assert cache.get(b"one") is None
    assert files(tmp_path) == []


def test_pages_and_answers_share_the_bound(tmp_path: Path) -> None:
    caches = open_caches(tmp_path, 10)
    assert (caches.pages.folder, caches.answers.folder) == (tmp_path / "pages", tmp_path / "answers")
    caches.pages.put(b"key", b"x" * 5_900_000)
    caches.answers.put(b"key", b"x" * 1_400_000)
    caches.answers.put(b"large", b"x" * 1_600_000)
    assert caches.pages.get(b"key") is not None
    assert caches.answers.get(b"key") is not None
    assert caches.answers.get(b"large") is None
