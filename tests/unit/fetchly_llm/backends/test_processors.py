"""How many threads a model gets, from files as the kernel writes them."""

import os
from pathlib import Path

import pytest

from fetchly_llm.backends.processors import default_threads, within_quota


@pytest.fixture(autouse=True)
def _eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)


def written(folder: Path, memberships: str, files: dict[str, str]) -> tuple[Path, Path]:
    """A /sys with these files below fs/cgroup, and a /proc/self/cgroup."""
    for name, text in files.items():
        file = folder / "sys" / "fs" / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    (folder / "cgroup").write_text(memberships)
    return folder / "sys", folder / "cgroup"


def cores(folder: Path, count: int) -> None:
    """Eight processors, so many cores."""
    for number in range(8):
        topology = folder / "sys" / "devices" / "system" / "cpu" / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text("0\n")
        (topology / "core_id").write_text(f"{number % count}\n")


def test_one_for_each_core(tmp_path: Path) -> None:
    cores(tmp_path, 4)
    assert default_threads(*written(tmp_path, "0::/\n", {})) == 4


def test_logical_ones_where_cores_are_not_told_apart(tmp_path: Path) -> None:
    assert default_threads(*written(tmp_path, "", {})) == 8


@pytest.mark.parametrize(
    ("memberships", "files", "threads"),
    [
        ("0::/\n", {"cpu.max": "300000 100000"}, 3),
        ("0::/\n", {"cpu.max": "250000 100000"}, 2),
        ("0::/\n", {"cpu.max": "50000 100000"}, 1),
        ("0::/\n", {"cpu.max": "max 100000"}, 8),
        ("0::/\n", {"cpu.max": "9900000 100000"}, 8),
        ("0::/\n", {"cpu.max": "nonsense"}, 8),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "600000 100000"}, 2),
        ("0::/a/b\n", {"a/cpu.max": "600000 100000", "a/b/cpu.max": "200000 100000"}, 2),
        ("0::/a\n", {"b/cpu.max": "200000 100000"}, 8),
        ("0::/the/hosts/own\n", {"cpu.max": "400000 100000"}, 4),
        ("0::/../beside\n", {"cpu.max": "400000 100000"}, 4),
        ("3:cpu,cpuacct:/a\n0::/\n", {"cpu,cpuacct/a/cpu.cfs_quota_us": "200000",
                                      "cpu,cpuacct/a/cpu.cfs_period_us": "100000"}, 2),
        ("3:cpu:/a\n", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, 8),
        ("3:cpuset:/a\n", {"cpu/a/cpu.cfs_quota_us": "200000", "cpu/a/cpu.cfs_period_us": "100000"}, 8),
        ("nonsense\n", {"cpu.max": "200000 100000"}, 8),
    ],
)  # fmt: skip
def test_no_more_than_the_quota_has_time_for(
    tmp_path: Path, memberships: str, files: dict[str, str], threads: int
) -> None:
    assert default_threads(*written(tmp_path, memberships, files)) == threads
    assert within_quota(1, *written(tmp_path, memberships, files)) == 1


def test_the_real_machine_has_some() -> None:
    assert 1 <= default_threads() <= 8
