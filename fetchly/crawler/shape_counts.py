"""New pages of a crawl in; which of them are too many of their shape, and what the user is told of it, out.

The counts are in the crawl's state, so that a resumed crawl goes on with them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Literal

from fetchly.crawler.fingerprint import Address, address_of
from fetchly.crawler.traps import TRAP_SUSPECTED, Suspicion, shape_of

Execute = Callable[..., sqlite3.Cursor]
Verdict = Literal["read", "kept", "forgotten"]
"""Of a page: it is queued; it is left out, and read under a higher bound; it is left out for good."""


class ShapeCounts:
    """Counts the pages of each shape; `per_shape` is the bound of a common one. As many pages as are read of a shape
    are kept beyond it, and no others: a trap that grows the state without end would be one, too.

    `execute` runs a statement in the caller's transaction. `suspicions` are the shapes that have come to their bound.
    """

    def __init__(self, execute: Execute, per_shape: int) -> None:
        self._execute = execute
        self._per_shape = per_shape
        self._full: set[bytes] = set()
        self.suspicions: list[Suspicion] = []

    def is_full(self, address: Address) -> bool:
        """Whether no more pages of this shape are even kept. Quick: a page may have very many links into a trap."""
        return bool(self._full) and shape_of(address).key in self._full

    def judge(self, address: Address) -> Verdict:
        """What becomes of a new page, which is counted."""
        shape = shape_of(address)
        most = shape.most(self._per_shape)
        if self._has_room(shape.key, most):
            return "read"
        kept = self._execute(
            "UPDATE shapes SET left_out = left_out + 1 WHERE shape = ? AND left_out < ? RETURNING left_out",
            shape.key, most,
        ).fetchall()  # fmt: skip
        if not kept:
            self._full.add(shape.key)
            return "forgotten"
        if kept == [(1,)]:
            self.suspicions.append(Suspicion(address.url, shape.repeats, most))
        return "kept"

    def take_back(self, address: Address) -> bool:
        """Whether a known page was left out: named after all, it is queued."""
        found = self._execute(
            "UPDATE pages SET state = 'queued', code = NULL, depth = 0 "
            "WHERE fingerprint = ? AND state = 'skipped' AND code = ?",
            address.fingerprint, TRAP_SUSPECTED,
        )  # fmt: skip
        if found.rowcount:
            self._execute("UPDATE shapes SET left_out = left_out - 1 WHERE shape = ?", shape_of(address).key)
        return found.rowcount > 0

    def queue_left_out(self) -> None:
        """What an earlier run left out, as far as the bound is higher now."""
        rows = self._execute(
            "SELECT id, url FROM pages WHERE state = 'skipped' AND code = ? ORDER BY id", TRAP_SUSPECTED
        )
        for number, url in rows.fetchall():
            shape = shape_of(address_of(url))
            if self._has_room(shape.key, shape.most(self._per_shape)):
                self._execute("UPDATE pages SET state = 'queued', code = NULL WHERE id = ?", number)
                self._execute("UPDATE shapes SET left_out = left_out - 1 WHERE shape = ?", shape.key)

    def _has_room(self, key: bytes, most: int) -> bool:
        found = self._execute(
            "INSERT INTO shapes VALUES (?1, 1, 0) ON CONFLICT DO UPDATE SET pages = pages + 1 WHERE pages < ?2",
            key,
            most,
        )
        return found.rowcount > 0
