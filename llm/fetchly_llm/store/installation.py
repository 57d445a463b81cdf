"""A plan to make a model in; the model, whole and checked, in its place under the store's root, out.

Folders of the root: `installed` holds the models with their manifests (each appears by one rename), `downloads` the
wheels on their way, `work` what a conversion has written so far (whatever is found there is a crash's), `locks` a file
per model, held by the one process that installs it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from fetchly_llm.errors import WeightsMismatch
from fetchly_llm.store.checkpoint_folder import check_folder
from fetchly_llm.store.digest import FileDigests, folder_digests, sha256_of
from fetchly_llm.store.entry import Progress
from fetchly_llm.store.manifest import MANIFEST, Manifest, read_manifest

_SCRAP_AGE_S = 14 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Made:
    """What a plan has made: the folder with the checkpoint, and the checksum of the file it came from."""

    folder: Path
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """How to come by one model.

    `key` names its place in the store and changes with everything that would change its bytes. `make` is given an
    empty folder to write into (it may answer with another one, which then stays where it is) and the progress.
    `adapter` is the checksum of the adapter that is merged in. `replaces` tells of an installed model whether this one
    takes its place: then it is removed once this one is there.
    """

    name: str
    source: str
    key: str
    make: Callable[[Path, Progress], Made]
    licence: str | None = None
    needs_network: bool = True
    adapter: str | None = None
    replaces: Callable[[Manifest], bool] = lambda _: False


class Installation:
    """The store's folders. Nothing is created before the first model is made."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.digests = FileDigests(root / "digests.json")

    def downloads(self, key: str) -> Path:
        """Where the download for `key` ends up, and grows under the same name plus ".part"."""
        return self.root / "downloads" / f"{key}.whl"

    def home(self, key: str) -> Path:
        """The folder of an installed model."""
        return self.root / "installed" / key

    def find(self, key: str) -> Manifest | None:
        """The manifest of an installed model, its files looked at (not read). None where it is not installed.

        Raises WeightsMismatch where a file of the store has changed since; files of the hub's cache may go at any time.
        """
        manifest = read_manifest(self.home(key))
        if manifest is None:
            return None
        difference = manifest.first_difference()
        if difference is None:
            return manifest
        if manifest.folder != self.home(key):
            return None
        raise WeightsMismatch(
            f"the installed model {manifest.name} was changed: {difference}",
            hint=f"run `fetchly models pull {manifest.name}` to repair it",
        )

    def all(self) -> list[Manifest]:
        """Every installed model, by key."""
        homes = sorted((self.root / "installed").glob(f"*/{MANIFEST}"))
        return [manifest for path in homes if (manifest := read_manifest(path.parent)) is not None]

    def twins(self, key: str) -> list[Manifest]:
        """Installed models that were made as that of `key` would be, under whatever name; their files looked at."""
        homes = sorted((self.root / "installed").glob(f"*-{key.rpartition('-')[2]}"))
        found = [manifest for home in homes if (manifest := read_manifest(home)) is not None]
        return [manifest for manifest in found if manifest.first_difference() is None]

    def is_sound(self, manifest: Manifest) -> bool:
        """Whether every file still hashes to what was written down. Reads everything."""
        return manifest.first_difference() is None and all(
            sha256_of(manifest.folder / file.name) == file.sha256 for file in manifest.files
        )

    def install(self, plan: Plan, progress: Progress, *, fresh: bool = False) -> Manifest:
        """Make the model unless another process has; with `fresh`, make it even so and replace what is there.

        A crash leaves the old state, a part to be resumed, or scraps that the next run removes.
        """
        with self._locked(plan.key, progress):
            if not fresh and (manifest := read_manifest(self.home(plan.key))) and manifest.first_difference() is None:
                return manifest
            work = self.root / "work" / plan.key
            _remove(work)
            (work / "model").mkdir(parents=True)
            try:
                manifest = self._record(plan, plan.make(work / "model", progress), work / "model")
                self._put_in_place(work, plan.key)
            finally:
                _remove(work)
            self._remove_replaced(plan)
            self._sweep()
            return replace(manifest, folder=self.home(plan.key)) if manifest.folder == work / "model" else manifest

    def _record(self, plan: Plan, made: Made, home: Path) -> Manifest:
        check_folder(made.folder)
        files = folder_digests(made.folder, sha256_of)
        manifest = Manifest(plan.name, plan.source, made.folder, files, plan.licence, made.sha256, plan.adapter)
        path = home / MANIFEST
        path.write_text(manifest.text(home), encoding="utf-8")
        for written in home.iterdir():
            _sync(written)
        _sync(home)
        return manifest

    def _put_in_place(self, work: Path, key: str) -> None:
        home = self.home(key)
        home.parent.mkdir(parents=True, exist_ok=True)
        if home.exists():
            # A process that has the old files open keeps them; whoever looks between the two renames waits or pulls.
            os.replace(home, work / "old")
        os.replace(work / "model", home)
        _sync(home.parent)

    def _remove_replaced(self, plan: Plan) -> None:
        """Remove the installed models whose place the new one takes.

        A process that has the old files open keeps them. What another process is at, or what a system will not rename
        while it is open, stays until the next installation.
        """
        for home in (self.root / "installed").iterdir():
            manifest = read_manifest(home)
            if home == self.home(plan.key) or manifest is None or not plan.replaces(manifest):
                continue
            lock = FileLock(self.root / "locks" / f"{home.name}.lock")
            with contextlib.suppress(Timeout, OSError), lock.acquire(timeout=0):
                scrap = self.root / "work" / home.name
                _remove(scrap)
                os.replace(home, scrap)
                _remove(scrap)

    def _sweep(self) -> None:
        """Remove what crashed or superseded installations left long ago, unless a process is still at it."""
        for scrap in [*(self.root / "downloads").glob("*"), *(self.root / "work").glob("*")]:
            if time.time() - scrap.stat().st_mtime < _SCRAP_AGE_S:
                continue
            lock = FileLock(self.root / "locks" / f"{scrap.name.split('.whl')[0]}.lock")
            with contextlib.suppress(Timeout), lock.acquire(timeout=0):
                _remove(scrap)

    @contextmanager
    def _locked(self, key: str, progress: Progress) -> Iterator[None]:
        path = self.root / "locks" / f"{key}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress.start("waiting for another process that fetches this model", None)
            try:
                lock.acquire()
            finally:
                progress.finish()
        try:
            yield
        finally:
            lock.release()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Have a file's contents, or a folder's entries, on the disk before anything points to them."""
    if path.is_dir() and os.name == "nt":  # Windows has no such call for folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
