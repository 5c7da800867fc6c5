"""`python -m loopbench`, and the command `loopbench`."""

from __future__ import annotations

import sys


def main() -> None:
    """Ctrl-C while the commands are still being imported is one line, too."""
    try:
        from loopbench.cli.main import main as commands  # takes a moment

        commands()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
