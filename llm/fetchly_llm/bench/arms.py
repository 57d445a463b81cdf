"""Names in; the arms of a decode bench, ways to decode that are measured beside one another, out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fetchly_llm.errors import RequestInvalid

NONE = "none"
PLAIN_1 = "plain-1"


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to decode: its draft sources, and whether it runs with one unpadded row.

    Drafting arms are compared with `none`, byte for byte. `plain-1` is not: another number of rows may have other bits.
    """

    name: str
    draft: tuple[str, ...] = ()
    one_row: bool = False

    def on_free_text(self) -> Arm | None:
        """The arm where no grammar forces anything; None where it would be the same as another one then."""
        draft = tuple(source for source in self.draft if source != "forced")
        is_another = draft != self.draft and any(draft == arm.draft for arm in ARMS)
        return None if is_another else Arm(self.name, draft, self.one_row)


ARMS = (
    Arm(NONE),
    Arm(PLAIN_1, one_row=True),
    Arm("forced", ("forced",)),
    Arm("lookup", ("lookup",)),
    Arm("forced+lookup", ("forced", "lookup")),
    Arm("streams", ("streams",)),
    Arm("all", ("forced", "lookup", "streams")),
)


@dataclass(frozen=True, slots=True)
class ArmChoice:
    """The arms that will run, and why others will not."""

    arms: tuple[Arm, ...]
    skipped: tuple[str, ...] = ()


def choose_arms(names: Sequence[str], streams: int, has_plain_1: bool) -> ArmChoice:
    """The named arms, all without names, and always the two plain ones that ratios are taken to.

    Those that need streams are skipped where the model has none (`streams` 0). Raises RequestInvalid for an unknown
    name.
    """
    known = [arm.name for arm in ARMS]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise RequestInvalid(f"unknown arm {unknown[0]!r}", hint=f"known: {', '.join(known)}")
    wanted = [arm for arm in ARMS if not names or arm.name in (*names, NONE, PLAIN_1)]
    without = [arm.name for arm in wanted if "streams" in arm.draft and not streams]
    skipped = [f"arm {name}: the model has no streams" for name in without]
    if not has_plain_1:
        without.append(PLAIN_1)
        skipped.append(f"arm {PLAIN_1}: a replay takes no times")
    return ArmChoice(tuple(arm for arm in wanted if arm.name not in without), tuple(skipped))
