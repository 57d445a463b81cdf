"""What no section can know alone: sections, schemas and places in, the first contradiction out as an error."""

from __future__ import annotations

import difflib
import fnmatch
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs

from fetchly.crawler.fingerprint import address_of
from fetchly.crawler.scope import Glob
from fetchly.errors import ConfigurationError, OutputError
from fetchly.pipeline.loading import Loaded
from fetchly.pipeline.page_schema import PipelineSchema
from fetchly.pipeline.positions import Node, Scalar, descend, key_place, short, shown, variables_in
from fetchly.pipeline.row_schema import row_schema
from fetchly.pipeline.source import Source
from fetchly.pipeline.transform import Transform
from fetchly.pipeline.url_glob import UrlGlob
from fetchly.sinks.place import Place
from fetchly.sinks.store import check_file

_Path = tuple[str | int, ...]


def check_source(source: Source, tree: Node) -> None:
    """Seeds and globs that are excluded. Errors: ConfigurationError."""
    excluded = [Glob(pattern) for pattern in source.exclude]
    for number, seed in enumerate(source.seeds):
        path = address_of(seed).path
        glob = next((glob for glob in excluded if glob.matches(path)), None)
        if glob is not None:
            node = descend(tree, ("source", "seeds", number))
            raise ConfigurationError(
                f"the seed {shown(node)} is excluded", where=node.place.text, hint="change exclude, or leave it out"
            )
    everything = any(UrlGlob(pattern).is_everything for pattern in source.exclude)
    for number, pattern in enumerate(source.follow):
        if everything or pattern in source.exclude:
            node = descend(tree, ("source", "follow", number))
            raise ConfigurationError(
                f"the glob {shown(node)} can match nothing: exclude leaves out all its pages", where=node.place.text
            )


def check_schemas(schemas: tuple[PipelineSchema, ...], tree: Node) -> None:
    """Names and globs of the schemas. Errors: ConfigurationError."""
    names: dict[str, PipelineSchema] = {}
    before: list[UrlGlob] = []
    for schema in schemas:
        for number, glob in enumerate(schema.match):
            hidden_by = next((other for other in before if other == glob or other.is_everything), None)
            if hidden_by is not None:
                node = descend(tree, (*schema.path, "match", number))
                raise ConfigurationError(
                    f"the glob {shown(node)} can match nothing: an earlier one takes its pages",
                    where=node.place.text,
                    hint="the first that matches counts: put the wider glob behind",
                )
            before.append(glob)
        if schema.name in names:
            raise ConfigurationError(
                f"two schemas are called {schema.name!r}",
                where=descend(tree, schema.path).place.text,
                hint="give one a name, or put the globs of both into one match: [GLOB, GLOB]",
            )
        names[schema.name] = schema


def check_transform(schema: PipelineSchema, tree: Node) -> None:
    """Names and values of a transform against the schema that it is for. Errors: ConfigurationError."""
    own = (*schema.path, "transform")
    path = own if schema.transform is not None and _has(tree, own) else ("transform",)
    _TransformCheck(schema, path, tree).run()


def _has(tree: Node, path: _Path) -> bool:
    return descend(tree, path) is not descend(tree, path[:-1])


class _TransformCheck:
    """One transform, one schema, step by step as a record goes through it."""

    def __init__(self, schema: PipelineSchema, path: _Path, tree: Node) -> None:
        self._transform: Transform = schema.transform
        self._schema = schema
        self._path = path
        self._tree = tree
        self._record = row_schema(schema.schema.json, schema.rows, Transform())

    def run(self) -> None:
        transform = self._transform
        fields = list(self._record["properties"])
        if transform.keep is not None and transform.drop:
            raise self._error("keep and drop cannot both be said", ("drop",), "keep alone says which fields stay")
        for word, names in (("keep", transform.keep or ()), ("drop", transform.drop)):
            for number, name in enumerate(names):
                self._known(name, fields, (word, number))
        kept = [name for name in (fields if transform.keep is None else transform.keep) if name not in transform.drop]
        after = self._renamed(fields, kept)
        for name in transform.defaults:
            self._known(name, after, ("defaults", name), "set adds a field that the schema lacks")
            self._fits(name)
        for name in transform.constants:
            if name in after:
                raise self._error(f"set would write over the field {name!r}", ("set", name), "drop it, or use defaults")
        for number, name in enumerate(transform.deduplicate):
            self._known(name, [*after, *transform.constants], ("deduplicate", number))

    def _renamed(self, fields: list[str], kept: list[str]) -> list[str]:
        rename = self._transform.rename
        after: list[str] = []
        for name in rename:
            self._known(name, fields, ("rename", name))
            if name not in kept:
                raise self._error(f"the field {name!r} is renamed, but not kept", ("rename", name))
        for name in sorted(kept, key=lambda name: name in rename):  # the renamed last: theirs is the name that is wrong
            new = rename.get(name, name)
            if new in after:
                where = ("rename", name) if name in rename else ("keep",)
                raise self._error(f"two fields would be called {new!r}", where, "rename or drop the other one, too")
            after.append(new)
        return after

    def _fits(self, name: str) -> None:
        back = {new: old for old, new in self._transform.rename.items()}
        field = self._record["properties"][back.get(name, name)]
        head: dict[str, Any] = {key: self._record[key] for key in ("$schema", "$defs") if key in self._record}
        validator = jsonschema_rs.validator_for(
            {**head, "type": "object", "properties": {name: field}}, validate_formats=True, offline=True
        )
        error = next(iter(validator.iter_errors({name: self._transform.defaults[name]})), None)
        if error is not None:
            node = descend(self._tree, (*self._path, "defaults", name))
            words = "" if variables_in(node) else f": {short(' '.join(error.message.split()))}"
            raise ConfigurationError(
                f"the default of {name!r} does not fit the schema{words}", where=node.place.text, code="DEFAULT_INVALID"
            )

    def _known(self, name: str, fields: Iterable[str], where: _Path, hint: str | None = None) -> None:
        known = list(fields)
        if name in known:
            return
        near = difflib.get_close_matches(name, known, n=1)
        way = f"did you mean {near[0]}?" if near else (hint or f"it has: {', '.join(known)}")
        if where[0] in ("defaults", "deduplicate") and name in self._transform.rename:
            way = f"it is called {self._transform.rename[name]} by then"
        # The name may have come from the environment, where it is an item of a list.
        node = descend(self._tree, (*self._path, *where))
        spelt = repr(name) if isinstance(where[-1], str) else shown(node)
        raise self._error(f"the schema {self._schema.name} has no field {short(spelt)}", where, way)

    def _error(self, words: str, where: _Path, hint: str | None = None) -> ConfigurationError:
        path = (*self._path, *where)
        return ConfigurationError(words, where=key_place(self._tree, path).text, hint=hint)


def check_outputs(loaded: Loaded, schemas: tuple[PipelineSchema, ...]) -> None:
    """Two outputs to one place, an output over what the run reads, a sink for a schema that is none. Errors:
    ConfigurationError."""
    names = [schema.name for schema in schemas]
    for number, sink in enumerate(loaded.spec.sinks):
        for at, name in enumerate(sink.settings.schemas or ()):
            if name not in names:
                node = descend(loaded.tree, ("sinks", number, sink.kind, "schemas", at))
                raise ConfigurationError(
                    f"no schema is called {shown(node)}", where=node.place.text, hint=f"there is: {', '.join(names)}"
                )
    read = [Place(os.path.realpath(file)) for file in _inputs(loaded, schemas)]
    taken: list[_Output] = []
    for output in _outputs(loaded):
        where = descend(loaded.tree, output.path).place.text
        is_page = any(_is_like(output.place.address, glob) for glob in loaded.spec.source.files)
        if is_page or any(output.place.is_in_the_way_of(place) for place in read):
            raise ConfigurationError(
                "this would write over what the run reads",
                where=where,
                hint="files is a glob of it, too: write it elsewhere" if is_page else None,
            )
        other = next((other for other in taken if output.place.is_in_the_way_of(other.place)), None)
        if other is not None:
            raise ConfigurationError(
                f"{other.name} is written to this place, too",
                where=where,
                hint="give each a file or a table of its own",
                code="SINK_TWICE",
            )
        taken.append(output)


def check_writable(loaded: Loaded) -> None:
    """Outputs on a disk that are sure to fail, such as one whose folder is not there. Errors: ConfigurationError."""
    for output in _outputs(loaded):
        file = Path(output.place.address)
        if not file.is_absolute():
            continue  # a database on a server, a store
        try:
            check_file(file)
        except OutputError as error:
            raise ConfigurationError(
                f"{output.name} cannot be written to {file}: {error.message}",
                where=descend(loaded.tree, output.path).place.text,
                hint=error.hint,
                code=error.code,
            ) from None


def outputs_outside(loaded: Loaded) -> Iterator[str]:
    """A word for each file that is written outside the pipeline's folder: by an absolute path, or through a link."""
    for output in _outputs(loaded):
        file = Path(output.place.address)
        if file.is_absolute() and not file.is_relative_to(loaded.folder):
            node = descend(loaded.tree, output.path)
            said = shown(node) if isinstance(node, Scalar) else output.name
            yield f"{node.place.text}: {said} lies outside the folder of the pipeline"


@dataclass(frozen=True, slots=True)
class _Output:
    """What is written somewhere; `path` leads to where the file says so."""

    name: str
    path: _Path
    place: Place


def _outputs(loaded: Loaded) -> Iterator[_Output]:
    run = loaded.spec.run
    for name, file in (("state", run.state), ("quarantine", run.quarantine), ("manifest", run.manifest)):
        if file is not None:
            yield _Output(f"the run's {name}", ("run", name), Place(os.path.realpath(file)))
    for number, sink in enumerate(loaded.spec.sinks):
        yield _Output(f"sinks[{number}]", ("sinks", number, sink.kind, "path"), sink.settings.place)


def _is_like(file: str, pattern: str) -> bool:
    """Whether a glob of `files` finds a file of this path."""

    def fit(names: list[str], globs: list[str]) -> bool:
        if not names or not globs:
            return not names and not any(glob != "**" for glob in globs)
        if globs[0] == "**":
            return fit(names, globs[1:]) or fit(names[1:], globs)
        is_seen = not names[0].startswith(".") or globs[0].startswith(".")
        return is_seen and fnmatch.fnmatchcase(names[0], globs[0]) and fit(names[1:], globs[1:])

    return fit(file.split("/"), pattern.split("/"))


def _inputs(loaded: Loaded, schemas: tuple[PipelineSchema, ...]) -> Iterator[Path]:
    yield from loaded.files
    yield from (schema.file for schema in schemas if schema.file is not None)
    source = loaded.spec.source
    yield from (file for each in source.urls for file in (each.file, each.csv) if file is not None)
    if source.storage_state is not None:
        yield source.storage_state
