"""`python -m fetchly` and the console script: arguments in, exit code out."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        from fetchly.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before `run` could say it itself
        print("INTERRUPTED: stopped", file=sys.stderr)
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
