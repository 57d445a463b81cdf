"""The kernel's files in; how many threads a model gets where nobody says, out.

More threads than processors wait for one another in every layer. So there is one for each physical core that this
process is bound to, and no more than the control groups that it is in have processor time for (a container's quota;
the kernel's cgroup-v2.rst and scheduler/sched-bwc.rst).
"""

from __future__ import annotations

import math
import os
from pathlib import Path

_SYS = Path("/sys")
_MEMBERSHIPS = Path("/proc/self/cgroup")


def default_threads(sys: Path = _SYS, memberships: Path = _MEMBERSHIPS) -> int:
    """Physical cores that this process may use, within the quota; logical ones where the system does not tell them
    apart."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = set()
    for cpu in usable:
        topology = sys / f"devices/system/cpu/cpu{cpu}/topology"
        try:
            cores.add(((topology / "physical_package_id").read_text(), (topology / "core_id").read_text()))
        except OSError:
            return within_quota(len(usable), sys, memberships)
    return within_quota(len(cores), sys, memberships)


def within_quota(threads: int, sys: Path = _SYS, memberships: Path = _MEMBERSHIPS) -> int:
    """So many, or the whole processors of the lowest quota where those are fewer; at least one."""
    quotas = [_quota(group) for group in _groups(sys / "fs/cgroup", memberships)]
    return max(1, math.floor(min([threads, *quotas])))


def _groups(top: Path, memberships: Path) -> list[Path]:
    """Folders of the groups of this process, and of all that those stand in, where they are mounted by custom. A path
    that is the host's, as a container may be shown it, leads to the top, which is the container's own."""
    found: list[Path] = []
    for line in _read(memberships).splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and "cpu" in (controllers := parts[1] or "cpu").split(","):
            mounts = (top / "unified", top) if not parts[1] else (top / controllers, top / "cpu")
            path = Path(parts[2].lstrip("/"))
            found += [mount / step for mount in mounts for step in (path, *path.parents) if ".." not in step.parts]
    return found


def _quota(group: Path) -> float:
    """Processors' worth of time; infinite without a quota ("max", -1, no file)."""
    for text in (_read(group / "cpu.max"), f"{_read(group / 'cpu.cfs_quota_us')} {_read(group / 'cpu.cfs_period_us')}"):
        quota, _, period = " ".join(text.split()).partition(" ")
        if quota.isdecimal() and period.isdecimal() and int(quota) and int(period):
            return int(quota) / int(period)
    return math.inf


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""
