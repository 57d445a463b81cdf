"""Datasets of pages with right answers in; out, the boosted trees that tell how likely a block holds a wanted value.

An example is a block of a page: right where a gold value that is marked `text` stands in it. Every page weighs the
same, half of it on its right blocks (a field's weight is shared by a list's entries, and by the places where one value
stands) and half on the others. The result is `extraction/relevance.json`, part of the prompt's format.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fetchly.errors import ConfigurationError, FetchlyError
from fetchly.extraction.fields import wanted_fields
from fetchly.extraction.relevance import FEATURES, features
from fetchly.extraction.sections import CountTokens
from fetchly.goods import Block
from fetchly.lab.dataset import Dataset, GoldRecord
from fetchly.lab.presence import ShownText
from fetchly.lab.reading import SetReader
from fetchly.lab.recall import WantedValue, wanted_values
from fetchly.lab.scoring import entries

TREES = 200
LEAVES = 16
RATE = 0.1
RIDGE = 1.0
FEWEST_PAGES = 20


@dataclass(frozen=True, slots=True)
class LabelledPage:
    """One page: a row of features and a weight for each block, and which blocks are right."""

    rows: NDArray[np.float64]  # (blocks, features)
    right: NDArray[np.bool_]  # (blocks,)
    weights: NDArray[np.float64]  # (blocks,)


def labelled_pages(
    dataset: Dataset,
    reader: SetReader,
    count_tokens: CountTokens,
    *,
    limit: int | None = None,
    on_page: Callable[[GoldRecord], None] = lambda record: None,
) -> list[LabelledPage]:
    """The pages of a set that hold a wanted value. A page that cannot be read teaches nothing and is passed over.

    Of every other page the structured data is left out, whatever `reader` would do.
    """
    readers = (reader, replace(reader, structured=False))
    pages: list[LabelledPage] = []
    for number, record in enumerate(dataset.records(limit)):
        on_page(record)
        schema = dataset.schema(record).json
        try:
            document = readers[number % 2].read(dataset, record)
        except FetchlyError:
            continue
        share = block_shares(wanted_values(record, schema), document.blocks, document.lang)
        if len(document.blocks) < 2 or not share.any():
            continue
        costs = count_tokens([f"{block.line}\n" for block in document.blocks])
        rows = features(wanted_fields(schema), document.blocks, costs)
        pages.append(LabelledPage(rows, share > 0, _weights(share)))
    return pages


def block_shares(wanted: Sequence[WantedValue], blocks: Sequence[Block], lang: str | None) -> NDArray[np.float64]:
    """By block, the weight of the values that stand in it; a value's weight is split by the root of its places."""
    texts = [ShownText([block.text], [True], lang) for block in blocks]
    shares = np.zeros(len(blocks))
    for value in wanted:
        parts = entries(value.kind, value.gold) if value.is_list or value.kind in ("names", "tags") else [value.gold]
        for part in parts:
            places = [at for at, text in enumerate(texts) if text.share(value.kind, value.is_list, part)]
            for at in places:
                shares[at] += value.weight / len(parts) / math.sqrt(len(places))
    return shares


def fit(pages: Sequence[LabelledPage]) -> dict[str, Any]:
    """The contents of relevance.json. Needs scikit-learn (extra `lab`). Errors: ConfigurationError for few pages."""
    if len(pages) < FEWEST_PAGES:
        raise ConfigurationError(f"{len(pages)} pages with values are too few", hint=f"give {FEWEST_PAGES} at least")
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError:
        raise ConfigurationError("scikit-learn is not installed", hint="pip install 'fetchly[lab]'") from None
    model = HistGradientBoostingClassifier(
        max_iter=TREES,
        learning_rate=RATE,
        max_leaf_nodes=LEAVES,
        l2_regularization=RIDGE,
        early_stopping=False,
        random_state=0,
    )
    model.fit(
        np.concatenate([page.rows for page in pages]),
        np.concatenate([page.right for page in pages]),
        sample_weight=np.concatenate([page.weights for page in pages]),
    )
    trees = [_tree(predictor.nodes) for (predictor,) in model._predictors]
    bias = round(float(model._baseline_prediction.ravel()[0]), 6)
    return {"features": list(FEATURES), "pages": len(pages), "bias": bias, "trees": trees}


def as_text(model: dict[str, Any]) -> str:
    """JSON, one tree a line."""
    head = {key: value for key, value in model.items() if key != "trees"}
    trees = ",\n".join(json.dumps(tree, separators=(",", ":")) for tree in model["trees"])
    return f'{json.dumps(head)[:-1]}, "trees": [\n{trees}\n]}}\n'


def _weights(share: NDArray[np.float64]) -> NDArray[np.float64]:
    right = share > 0
    weights = np.zeros(len(share))
    weights[right] = np.minimum(share[right], 1.0) / np.minimum(share[right], 1.0).sum()
    weights[~right] = 1.0 / max(1, int((~right).sum()))
    return weights


def _tree(nodes: Any) -> dict[str, list[float]]:
    """scikit-learn's tree as BoostedTrees reads it. A threshold keeps all its digits: a feature may equal it."""
    leaf = nodes["is_leaf"].astype(bool)
    return {
        "feature": [
            -1 if is_leaf else int(feature) for feature, is_leaf in zip(nodes["feature_idx"], leaf, strict=True)
        ],
        "threshold": [0.0 if is_leaf else float(t) for t, is_leaf in zip(nodes["num_threshold"], leaf, strict=True)],
        "left": [int(child) for child in nodes["left"]],
        "right": [int(child) for child in nodes["right"]],
        "value": [round(float(v), 5) if is_leaf else 0.0 for v, is_leaf in zip(nodes["value"], leaf, strict=True)],
    }
