"""What a kernel writes about control groups, in a folder."""

from pathlib import Path


def proc(folder: Path, cgroup: str, *mounts: str) -> Path:
    """A /proc whose process is in these groups. A mount: its root, where it is, its type and options."""
    (folder / "proc" / "self").mkdir(parents=True)
    (folder / "proc" / "self" / "cgroup").write_text(cgroup)
    rows = [f"{30 + n} 23 0:{n} {mount} shared:1 - {kind}" for n, (mount, _, kind) in enumerate(map(_split, mounts))]
    (folder / "proc" / "self" / "mountinfo").write_text("\n".join(["22 1 8:1 / / rw - ext4 /dev/sda1 rw", *rows, ""]))
    return folder / "proc"


def _split(mount: str) -> tuple[str, str, str]:
    return mount.partition(" - ")


def group(folder: Path, **files: int | str) -> None:
    """Files of a group; __ stands for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name.replace("__", ".")).write_text(f"{value}\n")


def v2(folder: Path) -> str:
    return f"/ {folder} rw,nosuid - cgroup2 cgroup2 rw"
