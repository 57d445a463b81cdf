"""A program that puts entries into a cache without end, for tests that kill it: FOLDER MAX_BYTES SEED.

The content of an entry follows from its key, so that whoever reads can tell a whole one.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from fetchly.disk_cache import DiskCache

KEYS = 200


def key_of(number: int) -> bytes:
    return f"entry {number}".encode()


def content_of(number: int) -> bytes:
    return random.Random(number).randbytes(2000 + 37 * number)


def main() -> None:
    cache = DiskCache(Path(sys.argv[1]), int(sys.argv[2]))
    rng = random.Random(int(sys.argv[3]))
    written = 0
    while True:
        number = rng.randrange(KEYS)
        cache.put(key_of(number), content_of(number))
        written += 1
        if written % 10 == 0:
            print(written, flush=True)


if __name__ == "__main__":
    main()
