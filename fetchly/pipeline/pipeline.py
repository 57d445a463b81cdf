"""A file or a dict in, one frozen Pipeline out that says everything: defaults filled in, paths absolute, schemas read.

Relative paths are relative to the folder of the pipeline file, whichever included file they stand in.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fetchly.crawler.fingerprint import address_of
from fetchly.errors import ConfigurationError
from fetchly.pipeline import checks
from fetchly.pipeline.extract import Extract
from fetchly.pipeline.loading import Loaded, load_dict, load_file
from fetchly.pipeline.masking import dumped, masked
from fetchly.pipeline.page_schema import PipelineSchema, page_schemas
from fetchly.pipeline.positions import descend
from fetchly.pipeline.source import Source
from fetchly.pipeline.spec import Spec
from fetchly.pipeline.variables import escaped
from fetchly.sinks.options import SinkOptions

if TYPE_CHECKING:
    from fetchly.pipeline.runner import RunSummary


@dataclass(frozen=True, slots=True, repr=False)
class Pipeline:
    """What is to be done. `schemas` are in the order in which a page tries them; `folder` is what relative paths were
    relative to, `file` the pipeline file (None for a dict), `files` that file and all that it includes; `notices` are
    what a careful user should know, `spec` are all sections. Two pipelines are equal where they do the same.
    """

    name: str
    source: Source
    extract: Extract
    schemas: tuple[PipelineSchema, ...] = field(compare=False)
    sinks: tuple[SinkOptions, ...]
    spec: Spec
    folder: Path = field(compare=False)
    file: Path | None = field(compare=False)
    files: tuple[Path, ...] = field(compare=False)
    notices: tuple[str, ...] = field(compare=False)
    loaded: Loaded = field(compare=False)

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str], *, environment: Mapping[str, str] | None = None) -> Self:
        """Read and check a file. `environment` is os.environ without it.

        Errors: ConfigurationError and SchemaError with FILE:LINE:COLUMN.
        """
        loaded = load_file(path, os.environ if environment is None else environment)
        return cls._checked(loaded, loaded.files[0])

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        *,
        folder: str | os.PathLike[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """The same for a dict; `folder` is the working folder without it.

        Errors: ConfigurationError and SchemaError with `pipeline` and a JSON pointer.
        """
        home = Path.cwd() if folder is None else Path(folder)
        return cls._checked(load_dict(data, home, os.environ if environment is None else environment), None)

    @classmethod
    def _checked(cls, loaded: Loaded, file: Path | None) -> Self:
        tree = loaded.tree
        checks.check_source(loaded.spec.source, tree)
        schemas = page_schemas(loaded.spec.extract, loaded.spec.transform, tree)
        checks.check_schemas(schemas, tree)
        for schema in schemas:
            checks.check_transform(schema, tree)
        loaded = _with_own_files(loaded)
        checks.check_outputs(loaded, schemas)
        spec = loaded.spec
        return cls(
            spec.name,
            spec.source,
            spec.extract,
            schemas,
            spec.sinks,
            spec,
            loaded.folder,
            file,
            loaded.files,
            tuple(checks.outputs_outside(loaded)),
            loaded,
        )

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, file={str(self.file) if self.file else None!r})"

    def run(self, **options: Any) -> RunSummary:
        """Run it: see `fetchly.run`."""
        from fetchly.pipeline.running import run_pipeline

        return run_pipeline(self, **options)

    def records(self, **options: Any) -> AsyncIterator[Any]:
        """Run it, and give its rows as they come: see `fetchly.pipeline.running.records`."""
        from fetchly.pipeline.running import records

        return records(self, **options)

    def schema(self, name: str) -> PipelineSchema:
        """A schema by its name. Errors: ConfigurationError."""
        found = next((schema for schema in self.schemas if schema.name == name), None)
        if found is None:
            names = ", ".join(schema.name for schema in self.schemas)
            raise ConfigurationError(f"no schema is called {name!r}", where=self.name, hint=f"there is: {names}")
        return found

    def schema_for(self, url: str) -> PipelineSchema | None:
        """The schema of a page, by its address; None for a page that is read for its links alone."""
        address = address_of(url)
        return next((schema for schema in self.schemas if schema.matches(address)), None)

    def row_schema(self, name: str) -> dict[str, Any]:
        """The JSON Schema of the rows of a schema, as sinks are given them."""
        return self.schema(name).row_schema()

    def schemas_of(self, sink: SinkOptions) -> tuple[PipelineSchema, ...]:
        """The schemas whose rows a sink takes."""
        names = sink.settings.schemas
        return tuple(schema for schema in self.schemas if names is None or schema.name in names)

    def place(self, *path: str | int) -> str:
        """Where something stands, as errors name it: `books.yaml:3:9`."""
        return descend(self.loaded.tree, path).place.text

    def as_dict(self) -> dict[str, Any]:
        """Everything as `from_dict` takes it, passwords and values of variables included: not to be shown."""
        whole: dict[str, Any] = escaped(dumped(self.spec))
        return whole

    def shown(self) -> dict[str, Any]:
        """Everything as it may be shown or kept: names of variables in place of their values, no passwords."""
        shown: dict[str, Any] = masked(dumped(self.spec), self.loaded.tree)
        return shown


def _with_own_files(loaded: Loaded) -> Loaded:
    """The files of a run where none are named."""
    spec, run = loaded.spec, loaded.spec.run
    own = {
        "state": run.state or loaded.folder / f"{spec.name}.state",
        "manifest": run.manifest or loaded.folder / f"{spec.name}.manifest.json",
    }
    if run.error == "quarantine":
        own["quarantine"] = run.quarantine or loaded.folder / f"{spec.name}.quarantine.jsonl"
    filled = spec.model_copy(update={"run": run.model_copy(update=own)})
    return Loaded(filled, loaded.tree, loaded.folder, loaded.files)
