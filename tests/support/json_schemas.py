"""Hypothesis strategies: user schemas with references, alternatives and odd corners; JSON values."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

names = st.sampled_from(["a", "b", "price", "total_minutes", "x/y", "Ü"])
references = st.sampled_from(["#/$defs/A", "#/$defs/B", "#", "#/properties/a", "#/$defs/none"])
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)

leaves: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    st.just({}),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                ["string", "integer", "number", "boolean", "null", ["string", "null"], ["integer", "string"]]
            )
        },
        optional={
            "x-verbatim": st.booleans(),
            "x-computed": st.booleans(),
            "format": st.sampled_from(["date", "date-time", "time", "uri"]),
            "maxLength": st.integers(0, 9),
            "minimum": st.integers(-3, 3),
            "pattern": st.just("^a"),
            "description": st.sampled_from(["in minutes", "a price"]),
        },
    ),
    st.fixed_dictionaries({"enum": st.lists(st.sampled_from([1, "a", None, True]), min_size=1, unique_by=repr)}),
    st.fixed_dictionaries({"const": st.sampled_from([1, "a", None])}),
    st.fixed_dictionaries({"$ref": references}),
)


def _structures(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(names, inner, max_size=3)
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["object", ["object", "null"]]), "properties": properties},
            optional={
                "required": st.lists(names, unique=True, max_size=2),
                "additionalProperties": st.booleans() | inner,
                "minProperties": st.integers(0, 2),
            },
        ),
        st.fixed_dictionaries({"additionalProperties": inner}),
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner},
            optional={"maxItems": st.integers(0, 3), "uniqueItems": st.booleans()},
        ),
        st.fixed_dictionaries({"prefixItems": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries(
            {}, optional={word: st.lists(inner, min_size=1, max_size=3) for word in ("anyOf", "oneOf", "allOf")}
        ),
        st.fixed_dictionaries({"$ref": references, "properties": properties}),
    )


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    """Whole user schemas: a root with definitions A and B; some references lead nowhere or in a circle."""
    nodes = st.recursive(leaves, _structures, max_leaves=6)
    return st.builds(
        lambda root, a, b: {**root, "$defs": {"A": a, "B": b}},
        nodes.filter(lambda n: isinstance(n, dict)),
        nodes,
        nodes,
    )
