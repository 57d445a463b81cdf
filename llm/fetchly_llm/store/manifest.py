"""The note that the store leaves beside an installed model: what it is, where it came from, what its files hash to."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from fetchly_llm.store.digest import FileDigest, identity

MANIFEST = "fetchly-model.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """An installed model. `folder` holds its files: the manifest's own folder, or the hub's cache.

    `sha256` is the checksum of the file it was converted from, None where it was taken as it is; `adapter` is that of
    the adapter merged into it, None where there is none.
    """

    name: str
    source: str
    folder: Path
    files: tuple[FileDigest, ...]
    licence: str | None = None
    sha256: str | None = None
    adapter: str | None = None

    @property
    def digest(self) -> str:
        """The content identity of the model."""
        return identity(self.files)

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(file.size for file in self.files)

    def first_difference(self) -> str | None:
        """The first file that is not there or not as long as it was; None where all are. Reads no contents."""
        for file in self.files:
            path = self.folder / file.name
            if not path.is_file():
                return f"{path} is gone"
            if path.stat().st_size != file.size:
                return f"{path} has {path.stat().st_size} bytes, not {file.size}"
        return None

    def text(self, home: Path) -> str:
        """As JSON, to lie in `home`; a folder that is `home` itself is written as "." so that a store can be moved."""
        folder = "." if self.folder == home else str(self.folder)
        value = {"format": _FORMAT, **asdict(self), "folder": folder, "digest": self.digest}
        return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def read_manifest(home: Path) -> Manifest | None:
    """The manifest of the model installed in `home`; None where there is none, or one that another version wrote."""
    try:
        value = json.loads((home / MANIFEST).read_text(encoding="utf-8"))
        if value["format"] != _FORMAT:
            return None
        return Manifest(
            name=value["name"],
            source=value["source"],
            folder=home / value["folder"],
            files=tuple(FileDigest(**file) for file in value["files"]),
            licence=value["licence"],
            sha256=value["sha256"],
            adapter=value.get("adapter"),  # older manifests do not know of adapters
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
