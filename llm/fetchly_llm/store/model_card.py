"""A model's folder in; the card that lies beside its weights out, and in: what the model was trained for."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from fetchly_llm.errors import WeightsMismatch

CARD = "fetchly-card.json"


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a training run says of its result. `format` is the version of document, prompt and answer that the model
    was trained for: it answers well under no other."""

    format: str


def write_card(folder: Path, card: ModelCard) -> None:
    """Put `card` into a checkpoint folder."""
    (folder / CARD).write_text(json.dumps(asdict(card), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def read_card(folder: Path) -> ModelCard | None:
    """The card of a checkpoint folder; None where there is none: a model that was not trained for extraction.

    Keys that are not known here are the card's own business. Raises WeightsMismatch for a card that cannot be read.
    """
    path = folder / CARD
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise WeightsMismatch(f"{path} cannot be read: {error}", hint="pull or copy the model again") from None
    if not isinstance(card, dict) or not isinstance(card.get("format"), str):
        raise WeightsMismatch(f"{path} does not say which format the model was trained for")
    return ModelCard(format=card["format"])
