"""What the kernel says about memory, from files as it writes them."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from fetchly.governing.host_memory import HostMemory, MemoryBound
from tests.support.cgroups import group, proc, v2

GB = 1_000_000_000
MACHINE = MemoryBound(16 * GB, 16 * GB - 800_000_000 - 6 * GB, "machine")


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=16 * GB, available=10 * GB))


def test_version_2_nested_with_the_file_cache_left_out(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    group(top / "user", memory__max=4 * GB, memory__current=3 * GB, memory__stat=f"anon 1\ninactive_file {GB}")
    group(top / "user" / "job", memory__max="max", memory__current=GB, memory__stat="inactive_file 0")
    host = HostMemory(proc(tmp_path, "0::/user/job\n", v2(top)))
    assert host.bounds() == (MACHINE, MemoryBound(4 * GB, 4 * GB - 200_000_000 - 2 * GB, "cgroup"))


def test_version_2_every_group_with_a_limit_counts_and_high_is_one(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    group(top / "a", memory__max=8 * GB, memory__current=7 * GB)
    group(top / "a" / "b", memory__max=2 * GB, memory__high=GB, memory__current=0)
    host = HostMemory(proc(tmp_path, "0::/a/b\n", v2(top)))
    assert [(bound.total, bound.free) for bound in host.bounds()[1:]] == [(GB, 950_000_000), (8 * GB, 600_000_000)]


def test_no_limit_leaves_the_machine(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    group(top / "a", memory__max="max", memory__current=GB)
    assert HostMemory(proc(tmp_path, "0::/a\n", v2(top))).bounds() == (MACHINE,)


def test_version_1_with_its_limit_that_is_none(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    group(top, memory__limit_in_bytes=9223372036854771712, memory__usage_in_bytes=5 * GB)
    group(
        top / "box",
        memory__limit_in_bytes=GB,
        memory__usage_in_bytes=700_000_000,
        memory__stat="cache 1\ntotal_inactive_file 200000000",
    )
    cgroup = "9:name=systemd:/\n4:cpu,memory:/box\n0::/\n"
    host = HostMemory(proc(tmp_path, cgroup, f"/ {top} rw - cgroup cgroup rw,cpu,memory"))
    assert host.bounds() == (MACHINE, MemoryBound(GB, 450_000_000, "cgroup"))


@pytest.mark.parametrize("path", ["/docker/abc", "/elsewhere", "/../../job"])
def test_within_a_container_the_mount_is_ours(tmp_path: Path, path: str) -> None:
    top = tmp_path / "a folder"
    group(top, memory__limit_in_bytes=GB, memory__usage_in_bytes=0)
    named = str(top).replace(" ", "\\040")
    mount = f"/docker/abc {named} ro - cgroup cgroup rw,memory"
    assert HostMemory(proc(tmp_path, f"4:memory:{path}\n", mount)).bounds()[1:] == (
        MemoryBound(GB, 950_000_000, "cgroup"),
    )


def test_a_full_group_has_nothing_free(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    group(top / "a", memory__max=GB, memory__current=990_000_000)
    assert HostMemory(proc(tmp_path, "0::/a\n", v2(top))).bounds()[1].free == 0


@pytest.mark.parametrize(
    ("cgroup", "files"),
    [
        ("", {}),
        ("nonsense\n0::/a\n", {}),
        ("0::/a\n", {"memory__max": GB}),
        ("0::/a\n", {"memory__max": "many", "memory__current": 1}),
        ("4:memory:/a\n", {"memory__max": GB, "memory__current": 1}),
    ],
)
def test_what_cannot_be_read_is_no_bound(tmp_path: Path, cgroup: str, files: dict[str, int | str]) -> None:
    top = tmp_path / "cgroup"
    group(top / "a", **files)
    assert HostMemory(proc(tmp_path, cgroup, v2(top))).bounds() == (MACHINE,)


def test_without_proc_it_is_the_machine(tmp_path: Path) -> None:
    assert HostMemory(tmp_path / "nowhere").bounds() == (MACHINE,)
