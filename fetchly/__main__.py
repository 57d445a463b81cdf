"""`python -m fetchly` and the console script: arguments in, exit code out."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    from fetchly.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
