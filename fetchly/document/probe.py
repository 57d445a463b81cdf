"""Suspicious mark-up in; whether the parser gets through it out, tried in a process that can be killed.

Lexbor compares each attribute of a tag with all before it, so that a tag of a million attributes takes hours. No scan
that is cheaper than a tokenizer tells such a tag from a long script for certain: what looks like one is tried first.
"""

from __future__ import annotations

import re
import subprocess
import sys
from heapq import nlargest
from itertools import islice

MAX_COST = 1_000_000_000  # comparisons of attributes, about 2 ns each
MAX_QUOTED_ENDS = 100
SHORT_TAG = 500  # characters: its attributes cost nothing
PROBE_SECONDS = 5.0
PROBE_BYTES = 2_000_000_000  # address space

_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_SEPARATOR = re.compile(r"[\s/\"']+")
# A `>` inside a quoted value does not end the tag: many of them could hide a long one from the scan.
_QUOTED_END = re.compile(r"=[\"'][^\"'<>]{0,200}>")

_PROBE = """
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (BOUND, BOUND))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except ImportError:
    pass
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser
LexborHTMLParser(sys.stdin.buffer.read().decode("utf-8", "replace"), options=LexborDocumentOptions.WO_EVENTS)
""".replace("BOUND", str(PROBE_BYTES))


def is_suspicious(text: str) -> bool:
    """Whether the attributes of this mark-up may cost more than MAX_COST. True for hostile pages, and for the page in
    thirty that only holds a long script; linear in the text."""
    quoted_ends = sum(1 for _ in islice(_QUOTED_END.finditer(text), MAX_QUOTED_ENDS + 1))
    if quoted_ends > MAX_QUOTED_ENDS:
        return True
    parts = [part for part in text.split(">") if len(part) > SHORT_TAG]
    counts = [len(_SEPARATOR.findall(_QUOTED.sub(" ", part))) for part in parts]
    # Every quoted `>` may join two parts into one tag: assume that it joins the worst.
    joined = sum(nlargest(quoted_ends + 1, counts)) + quoted_ends * SHORT_TAG // 2
    return joined**2 + sum(count**2 for count in counts) > MAX_COST


def survives(text: str, *, seconds: float = PROBE_SECONDS) -> bool:
    """Whether a child process parses the text in time, within its memory and without a crash."""
    try:
        done = subprocess.run(
            # -P: no import from the current directory, which may be anybody's.
            [sys.executable, "-P", "-c", _PROBE],
            input=text.encode("utf-8", "replace"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
