"""A user's schema goes in; a closed, finite schema for the grammar, what it leaves out, and findings come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar import findings as codes
from fetchly_llm.grammar.branches import Reason
from fetchly_llm.grammar.desugar import Desugarer, TooManyNodes
from fetchly_llm.grammar.findings import Finding, Mode, Notebook, Residual, summary
from fetchly_llm.grammar.inspection import inspect
from fetchly_llm.grammar.reach import can_finish, expanded_size, finishable, prune, reachable
from fetchly_llm.grammar.references import Document
from fetchly_llm.grammar.schema_graph import MAX_SUBSCHEMAS
from fetchly_llm.grammar.uniqueness import settle_unique

ALL_ESCAPES: Final = 'nrbtf\\"u'
NO_UNICODE_ESCAPES: Final = 'nrbtf\\"'


@dataclass(frozen=True, slots=True)
class PreparedSchema:
    """What the grammar compiler needs.

    `enforced` is made only of nodes {"type": one type, that type's own keywords}, {"enum": [...]}, {"anyOf": [...]}
    and {"$ref": "#/$defs/name"} (alone in its node), with our own `x-` words kept on scalars; `$defs` stands at its
    root only. `uniqueItems` stands on arrays of listed strings or of spans: llguidance does not know it, the compiler's
    repetition rule does. It admits no value that the user's schema refuses, but for `residual`.

    `allowed_escapes` is llguidance's `json_allowed_escapes`: in open objects a declared name, spelt by \\u escapes,
    would pass as an additional one. `has_open_objects` warns that such objects may repeat a key.
    """

    enforced: dict[str, Any]
    residual: tuple[Residual, ...]
    findings: tuple[Finding, ...]
    allowed_escapes: str
    has_open_objects: bool


def prepare(schema: Mapping[str, Any] | bool, *, mode: Mode = "strict") -> PreparedSchema:
    """Make a schema fit for writing; raises SchemaRefused (first error's code and pointer) for what cannot be written.

    `strict` refuses keywords that the grammar does not enforce; `check` leaves them out and lists them in `residual`.
    """
    enforced, notebook = examine(schema, mode)
    errors = notebook.errors
    if errors:
        first = errors[0]
        raise SchemaRefused(summary(errors), pointer=first.pointer, hint=first.hint or None, code=first.code)
    assert enforced is not None, "a schema without errors has a grammar"
    is_open = _has_open_objects(enforced)
    return PreparedSchema(
        enforced=enforced,
        residual=notebook.residual,
        findings=notebook.findings,
        allowed_escapes=NO_UNICODE_ESCAPES if is_open else ALL_ESCAPES,
        has_open_objects=is_open,
    )


def examine(schema: object, mode: Mode) -> tuple[dict[str, Any] | None, Notebook]:
    """The prepared schema (None where errors forbid one) and the notebook; never raises for any value."""
    enforced, notebook = _examined(schema, mode, implies_types=True)
    seen = {finding.code for finding in notebook.findings}
    if enforced is None and {codes.UNSATISFIABLE, codes.TYPE_IMPLIED} <= seen:
        return _examined(schema, mode, implies_types=False)  # the narrowing is ours: it must not be what fails
    return enforced, notebook


def _examined(schema: object, mode: Mode, *, implies_types: bool) -> tuple[dict[str, Any] | None, Notebook]:
    notebook = Notebook(mode)
    document = inspect(schema, notebook)
    if document is None or any(finding.code == codes.REFERENCE for finding in notebook.errors):
        return None, notebook
    if any(finding.code == codes.INVALID for finding in notebook.errors):
        return None, notebook
    return _desugared(document, notebook, implies_types), notebook


def _desugared(document: Document, notebook: Notebook, implies_types: bool) -> dict[str, Any] | None:
    try:
        desugarer = Desugarer(document, notebook, implies_types=implies_types)
    except ValueError as error:
        message = f"{(str(error).splitlines() or ['the validator refuses it'])[0]}."
        notebook.note(codes.REFERENCE, "", message, hint="Check every $id and $ref.")
        return None
    try:
        root = desugarer.run()
        if expanded_size([root, *desugarer.definitions.values()]) > MAX_SUBSCHEMAS:
            raise TooManyNodes
    except TooManyNodes:
        notebook.note(
            codes.TOO_LARGE,
            "",
            "its alternatives multiply beyond what can be written.",
            hint="Use fewer anyOf, oneOf and dependent keywords beside one another.",
        )
        return None
    if isinstance(root, Reason):
        _unsatisfiable(root, notebook)
        return None
    known = finishable(desugarer.definitions)
    if not can_finish(root, known):
        _unsatisfiable(_unfinished(desugarer, root, known), notebook)
        return None
    pruned = {name: prune(node, known) for name, node in desugarer.definitions.items() if name in known}
    enforced = dict(prune(root, known))
    definitions = reachable(enforced, pruned)
    if definitions:
        enforced["$defs"] = definitions
    if desugarer.asks_for_unique:
        settle_unique(enforced, notebook)
    return enforced


def _unsatisfiable(reason: Reason, notebook: Notebook) -> None:
    if notebook.errors:
        return  # what is refused already need not be satisfiable as well
    notebook.note(
        codes.UNSATISFIABLE,
        reason.pointer,
        f"no record can satisfy the schema: {reason.message}.",
        hint="Correct what stands here; nothing was fetched or generated.",
    )


def _unfinished(desugarer: Desugarer, root: Any, known: set[str]) -> Reason:
    """Why the root cannot be finished: an empty definition, or one that needs itself without end."""
    for name in reachable(root, {name: _node(node) for name, node in desugarer.definitions.items()}):
        written = desugarer.definitions[name]
        if isinstance(written, Reason):
            return written
    names = (name for name in desugarer.definitions if name not in known)
    return Reason(desugarer.origins.get(next(names, ""), ""), "a value here would have to contain itself without end")


def _node(written: Any) -> Any:
    return False if isinstance(written, Reason) else written


def _has_open_objects(node: Any) -> bool:
    pending = [node]
    while pending:
        here = pending.pop()
        if isinstance(here, list):
            pending.extend(here)
        elif isinstance(here, dict) and "enum" not in here:
            if here.get("type") == "object" and (
                here["additionalProperties"] is not False or "patternProperties" in here
            ):
                return True
            pending.extend(here.get("properties", {}).values())
            pending.extend(here.get("$defs", {}).values())
            pending.extend(here[name] for name in ("anyOf", "prefixItems", "items") if name in here)
    return False
