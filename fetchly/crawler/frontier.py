"""What a crawl has found in, what to fetch next out; each page's way from queued to done, on disk at every step.

    queued -> in flight -> done
                        -> failed    (code, message, attempts, whether it may go better later)
                        -> skipped   (code: it turned out not to count)
                        -> queued    (to be tried again, or interrupted)

One thread at a time. Every change belongs in a `transaction`, so that a killed process leaves no half of anything: what
was in flight is queued again, a page that is done has its result and its links.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fetchly.crawler.fingerprint import Address
from fetchly.crawler.near_duplicates import NearDuplicates
from fetchly.crawler.shape_counts import ShapeCounts
from fetchly.crawler.state_file import open_state, run_of, worded
from fetchly.crawler.traps import PER_SHAPE, TRAP_SUSPECTED, Suspicion

SAME_PAGE = "SAME_PAGE"
"""Why a page is skipped that redirects to a known one, or is where another one has redirected to."""

_OWED = -1  # the rank of what an earlier run has begun, or what is to be tried again after it
_COLUMNS = "id, url, host, depth, attempts, reserved"


@dataclass(frozen=True, slots=True)
class QueuedPage:
    """A page to be fetched. `attempts` have failed so far; `reserved`: it counts towards the limit already."""

    id: int
    url: str
    host: str
    depth: int
    attempts: int
    reserved: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a page failed. `message` is one line, which ends with the `hint`; `retryable`: it may go better later."""

    code: str
    message: str
    retryable: bool = False
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class StoredResult:
    """What came of a done page. `seq` numbers the results from 1 in the order in which they were stored; `records` is
    how many records `content` holds."""

    seq: int
    content: str
    records: int


@dataclass(frozen=True, slots=True)
class FrontierCounts:
    """How many pages are in each state, failed and skipped ones by code, and how many records there are."""

    queued: int
    in_flight: int
    done: int
    failed: Mapping[str, int]
    skipped: Mapping[str, int]
    records: int


class Frontier:
    """The pages of one crawl. Opening it queues again what was in flight when its last run ended.

    At most `limit` pages are ever reserved: in flight, waiting for another try, done, failed, or without a record. With
    `in_levels`, a page is handed out when no page nearer to the seeds is open any more, so that its depth is the
    smallest there is.

    Of a shape (see traps) so many pages are queued as `per_shape` says; as many more are skipped as TRAP_SUSPECTED, and
    queued when the state is opened with a higher bound; no others are kept. What has depth 0 was named, and is no trap.

    `run` is what this crawl is called by all who keep something of it.
    Errors: those of `open_state`; OutputError where the state cannot be written, STATE_INVALID where it is damaged.
    """

    def __init__(
        self,
        file: Path | None,
        settings: Mapping[str, Any],
        *,
        resume: bool = False,
        limit: int | None = None,
        in_levels: bool = False,
        per_shape: int = PER_SHAPE,
    ) -> None:
        self._file = file
        self._limit = limit
        self._in_levels = in_levels
        self._shapes = ShapeCounts(self._execute, per_shape)
        self._database = open_state(file, settings, resume=resume)
        self.run = run_of(self._database)
        with self.transaction():
            self._execute("UPDATE pages SET state = 'queued', rank = ?, reserved = 0 WHERE state = 'in_flight'", _OWED)
            self._execute("UPDATE pages SET rank = ?, reserved = 0 WHERE state = 'queued' AND reserved = 1", _OWED)
            self._shapes.queue_left_out()
        self._recount()

    def close(self) -> None:
        """Give the state back. What is in flight is queued again when it is next opened."""
        self._database.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of the changes within, or none. After an error the frontier is of no more use."""
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.rollback()
            raise

    # What there is

    @property
    def hosts(self) -> Mapping[str, int]:
        """How many pages are queued of each host that has any."""
        return self._queued

    @property
    def is_limit_reached(self) -> bool:
        """Whether no page may be begun but those that count already and wait for another try."""
        return self._limit is not None and self._reserved >= self._limit

    @property
    def has_more(self) -> bool:
        """Whether there is a page that may be fetched, now or once others are through."""
        return self._reserved_waiting > 0 or (self._queued.total() > 0 and not self.is_limit_reached)

    @property
    def last_result(self) -> int:
        """The number of the latest result, 0 where there is none."""
        return self._last_result

    def counts(self) -> FrontierCounts:
        """Figures for display; cheap."""
        by_state = self._by_state
        return FrontierCounts(
            queued=self._queued.total(),
            in_flight=self._in_flight,
            done=by_state["done", ""],
            failed={code: n for (state, code), n in by_state.items() if state == "failed" and n},
            skipped={code: n for (state, code), n in by_state.items() if state == "skipped" and n},
            records=self._records,
        )

    def has_been_read(self, fingerprint: bytes, but: int) -> bool:
        """Whether a page was read at this address already, by whatever name. `but` is the page that asks."""
        had = "state = 'done' OR (state = 'skipped' AND reserved = 1)"
        row = self._row(f"SELECT id, {had}, same_as FROM pages WHERE fingerprint = ?", fingerprint)
        return row is not None and (row[2] is not None or (row[1] and row[0] != but))

    def results(self, after: int, most: int) -> list[StoredResult]:
        """The results that follow number `after`, in the order in which they were stored."""
        query = "SELECT seq, content, records FROM results WHERE seq > ? ORDER BY seq LIMIT ?"
        rows = self._execute(query, after, most)
        return [StoredResult(*row) for row in rows]

    def hosts_begun_with(self) -> list[str]:
        """The hosts of all pages that were named, in whichever run."""
        return [host for (host,) in self._execute("SELECT DISTINCT host FROM pages WHERE depth = 0")]

    def noted(self, key: str) -> bool:
        """Whether `note` was called with this key, in whichever run."""
        return self._row("SELECT 1 FROM notes WHERE key = ?", key) is not None

    def notes(self, beginning: str) -> list[str]:
        """What follows `beginning` in the keys that `note` was called with, in whichever run."""
        rows = self._execute("SELECT key FROM notes WHERE key GLOB ? || '*' ORDER BY rowid", beginning)
        return [key.removeprefix(beginning) for (key,) in rows]

    def near_duplicates(self, threshold: float) -> NearDuplicates:
        """What pages are like, kept in this state; its changes belong in the same transactions."""
        return NearDuplicates(self._execute, threshold)

    def render_choice(self) -> dict[str, int]:
        """What earlier runs have learned of sites (see RenderChoice)."""
        return dict(self._execute("SELECT place, needed FROM render_choice"))

    # What changes

    def suspicions(self) -> list[Suspicion]:
        """The shapes that have come to their bound since this was last asked."""
        found, self._shapes.suspicions = self._shapes.suspicions, []
        return found

    def note(self, key: str) -> None:
        """Remember that something need not be done again."""
        self._execute("INSERT OR IGNORE INTO notes VALUES (?)", key)

    def learn(self, render_choice: Mapping[str, int]) -> None:
        """Remember what has been learned of sites."""
        for place, needed in render_choice.items():
            self._execute("INSERT OR REPLACE INTO render_choice VALUES (?, ?)", place, needed)

    def add(self, addresses: Iterable[Address], depth: int, parent: int | None = None) -> int:
        """Queue the pages that are not known yet; how many they are. A known one may turn out to be less deep."""
        added = 0
        for address in addresses:
            if depth > 0 and not self._in_levels and self._shapes.is_full(address):
                continue
            found = self._execute(
                "INSERT OR IGNORE INTO pages (fingerprint, url, host, depth, parent) VALUES (?, ?, ?, ?, ?)",
                address.fingerprint, address.url, address.host, depth, parent,
            )  # fmt: skip
            verdict = self._shapes.judge(address) if found.rowcount and depth > 0 else "read"
            if verdict == "kept":
                self._execute(
                    "UPDATE pages SET state = 'skipped', code = ? WHERE id = ?", TRAP_SUSPECTED, found.lastrowid
                )
                self._by_state["skipped", TRAP_SUSPECTED] += 1
            elif verdict == "forgotten":
                self._execute("DELETE FROM pages WHERE id = ?", found.lastrowid)
            elif found.rowcount or (depth == 0 and self._shapes.take_back(address)):
                self._by_state["skipped", TRAP_SUSPECTED] -= not found.rowcount
                self._queued[address.host] += 1
                added += 1
            elif self._in_levels:
                self._execute(
                    "UPDATE pages SET depth = ?1 WHERE fingerprint = ?2 AND depth > ?1", depth, address.fingerprint
                )
        return added

    def peek(self, host: str) -> QueuedPage | None:
        """The page of a host that is to be fetched next; None where there is none for the time being."""
        only = "AND reserved = 1" if self.is_limit_reached else ""
        if not self._queued[host] or (only and not self._reserved_waiting):
            return None
        level = "AND depth <= ?" if self._in_levels else "AND ? IS NOT NULL"
        row = self._row(
            f"SELECT {_COLUMNS} FROM pages WHERE state = 'queued' AND host = ? {level} {only} "
            "ORDER BY rank, depth, id LIMIT 1",
            host,
            self._level() if self._in_levels else 0,
        )
        if row is None:
            return None
        number, url, queued_host, depth, attempts, reserved = row
        return QueuedPage(number, url, queued_host, depth, attempts, bool(reserved))

    def take(self, page: QueuedPage) -> None:
        """A peeked page is in flight from now on, and counts."""
        assert page.reserved or not self.is_limit_reached
        self._execute("UPDATE pages SET state = 'in_flight', reserved = 1 WHERE id = ?", page.id)
        self._leave_queue(page.host, page.reserved)
        self._reserved += not page.reserved
        self._in_flight += 1

    def release(self, page: QueuedPage) -> None:
        """A taken page was not tried to the end: it waits again, as if nothing had been, and counts no more."""
        self._execute("UPDATE pages SET state = 'queued', reserved = 0, rank = ? WHERE id = ?", _OWED, page.id)
        self._queued[page.host] += 1
        self._reserved -= 1
        self._in_flight -= 1

    def retry(self, page: QueuedPage, failure: Failure) -> None:
        """A taken page failed, and waits for another try. It goes on counting."""
        self._execute(
            "UPDATE pages SET state = 'queued', attempts = ?, rank = ?, code = ?, message = ? WHERE id = ?",
            page.attempts + 1, page.attempts + 1, failure.code, failure.message, page.id,
        )  # fmt: skip
        self._queued[page.host] += 1
        self._reserved_waiting += 1
        self._in_flight -= 1

    def fail(self, page: QueuedPage, failure: Failure, links: Iterable[Address] = (), *, counts: bool = True) -> None:
        """A taken page failed for good. `counts` False: it was never asked for, and frees its place under the limit."""
        self._execute(
            "UPDATE pages SET state = 'failed', attempts = ?, code = ?, message = ?, retryable = ?, hint = ?, "
            "reserved = ? WHERE id = ?",
            page.attempts + counts, failure.code, failure.message, failure.retryable, failure.hint, counts, page.id,
        )  # fmt: skip
        self._by_state["failed", failure.code] += 1
        self._reserved -= not counts
        self._in_flight -= 1
        self.add(links, page.depth + 1, page.id)

    def skip(
        self, page: QueuedPage, code: str, message: str = "", links: Iterable[Address] = (), at: Address | None = None
    ) -> None:
        """A taken page turned out to be none of those that are sought. `at`: it was read there, for nothing; it keeps
        its place under the limit, and is known there."""
        self._execute(
            "UPDATE pages SET state = 'skipped', reserved = ?, code = ?, message = ? WHERE id = ?",
            at is not None, code, message, page.id,
        )  # fmt: skip
        self._by_state["skipped", code] += 1
        self._reserved -= at is None
        self._in_flight -= 1
        if at is not None:
            self._claim(page, at)
        self.add(links, page.depth + 1, page.id)

    def refuse(self, page: QueuedPage, code: str, message: str) -> None:
        """A peeked page is not to be fetched at all."""
        self.take(page)
        self.skip(page, code, message)

    def complete(
        self, page: QueuedPage, final: Address, content: str, records: int, links: Iterable[Address] = ()
    ) -> None:
        """A taken page is done. `final` is where it was found to be; `content` is the result, of so many records."""
        self._execute("UPDATE pages SET state = 'done', code = NULL, message = NULL WHERE id = ?", page.id)
        given = (page.id, records, content)
        stored = self._execute("INSERT INTO results (page, records, content) VALUES (?, ?, ?)", *given)
        self._by_state["done", ""] += 1
        self._records += records
        self._last_result = stored.lastrowid or 0
        self._in_flight -= 1
        self._claim(page, final)
        self.add(links, page.depth + 1, page.id)

    def queue_failed(self) -> int:
        """Queue every failed page again, before all others; how many they are."""
        with self.transaction():
            found = self._execute(
                "UPDATE pages SET state = 'queued', reserved = 0, attempts = 0, rank = ? WHERE state = 'failed'", _OWED
            )
        self._recount()
        return found.rowcount

    def _claim(self, page: QueuedPage, final: Address) -> None:
        """The address where a page was found is that page from now on, whoever names it."""
        row = self._row("SELECT id, state, host, reserved FROM pages WHERE fingerprint = ?", final.fingerprint)
        if row is None:
            self._execute(
                "INSERT INTO pages (fingerprint, url, host, depth, parent, state, code, same_as) "
                "VALUES (?, ?, ?, ?, ?, 'skipped', ?, ?)",
                final.fingerprint, final.url, final.host, page.depth, page.id, SAME_PAGE, page.id,
            )  # fmt: skip
        elif row[0] == page.id:
            return
        else:
            self._execute("UPDATE pages SET same_as = ? WHERE id = ?", page.id, row[0])
            if row[1] != "queued":
                return
            self._execute("UPDATE pages SET state = 'skipped', reserved = 0, code = ? WHERE id = ?", SAME_PAGE, row[0])
            self._leave_queue(row[2], row[3])
            self._reserved -= row[3]
        self._by_state["skipped", SAME_PAGE] += 1

    def _leave_queue(self, host: str, reserved: bool) -> None:
        self._queued[host] -= 1
        if not self._queued[host]:
            del self._queued[host]
        self._reserved_waiting -= reserved

    def _level(self) -> int:
        return self._number("SELECT min(depth) FROM pages WHERE state IN ('queued', 'in_flight')")

    def _recount(self) -> None:
        """Read all figures that are kept in memory."""
        self._queued = Counter(
            dict(self._execute("SELECT host, count(*) FROM pages WHERE state = 'queued' GROUP BY 1"))
        )
        self._by_state = Counter(
            {
                (state, code if state != "done" else ""): count
                for state, code, count in self._execute(
                    "SELECT state, code, count(*) FROM pages WHERE state IN ('done', 'failed', 'skipped') GROUP BY 1, 2"
                )
            }
        )
        self._reserved = self._number("SELECT count(*) FROM pages WHERE reserved = 1")
        self._reserved_waiting = self._number("SELECT count(*) FROM pages WHERE state = 'queued' AND reserved = 1")
        self._in_flight = self._number("SELECT count(*) FROM pages WHERE state = 'in_flight'")
        self._records = self._number("SELECT sum(records) FROM results")
        self._last_result = self._number("SELECT max(seq) FROM results")

    def _number(self, query: str) -> int:
        return (self._row(query) or (0,))[0] or 0

    def _row(self, query: str, *values: Any) -> Any:
        return self._execute(query, *values).fetchone()

    def _execute(self, query: str, *values: Any) -> sqlite3.Cursor:
        try:
            return self._database.execute(query, values)
        except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
            raise  # a bug of ours, and not the file's fault
        except sqlite3.DatabaseError as error:
            raise worded(error, str(self._file or "the temporary state")) from error
