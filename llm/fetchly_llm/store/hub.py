"""A repository of the Hugging Face Hub in; its checkpoint folder in the hub's own cache out."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx2
import huggingface_hub
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.tqdm import tqdm

from fetchly_llm.errors import ModelMissing
from fetchly_llm.store.entry import Progress
from fetchly_llm.store.reference import HubReference

PATTERNS = ("*.json", "*.safetensors", "chat_template.jinja", "*.model", "LICENSE*")


def fetch_snapshot(reference: HubReference, progress: Progress, *, offline: bool) -> Path:
    """The folder of the repository's snapshot, fetched where parts are missing. Weights in safetensors alone.

    The hub's library resumes and checks on its own, and shares its cache with other programs. `offline` looks into
    that cache only. Raises ModelMissing.
    """
    progress.start(f"fetching {reference}", None)
    try:
        folder = huggingface_hub.snapshot_download(
            reference.repository,
            revision=reference.revision,
            allow_patterns=list(PATTERNS),
            local_files_only=offline,
            tqdm_class=_bars(progress),
        )
    except GatedRepoError as error:
        raise ModelMissing(
            f"{reference} is given out on request only", hint="accept its terms on the hub and set HF_TOKEN"
        ) from error
    except RevisionNotFoundError as error:
        raise ModelMissing(f"{reference.repository} has no revision {reference.revision}") from error
    except RepositoryNotFoundError as error:
        raise ModelMissing(
            f"the hub has no {reference.repository}", hint="check the name; HF_TOKEN for a private one"
        ) from error
    except LocalEntryNotFoundError as error:
        raise ModelMissing(
            f"{reference} is not on this machine, and the hub was not reached", hint=_hint(reference)
        ) from error
    except (HfHubHTTPError, HFValidationError, httpx2.HTTPError, OSError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelMissing(f"{reference} cannot be fetched: {reason}", hint=_hint(reference)) from error
    finally:
        progress.finish()
    return Path(folder)


def _hint(reference: HubReference) -> str:
    return f"run `fetchly models pull {reference}` with a network, or give --model a local folder"


def _bars(progress: Progress) -> type[Any]:
    """The hub's progress bars, undrawn: bytes written go to `progress`, from whichever thread."""
    lock = threading.Lock()

    class Bar(tqdm):
        """One of the library's bars; only the one that counts bytes on the disk reports."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            self._reports = options.get("unit") == "B" and options.get("name") == "huggingface_hub.snapshot_download"
            super().__init__(*arguments, **{**options, "disable": True})  # type: ignore[no-untyped-call]

        def update(self, n: float | None = 1) -> None:
            """Pass on `n` bytes."""
            if self._reports and n:
                with lock:
                    progress.advance(int(n))

    return Bar
