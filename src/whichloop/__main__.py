"""`python -m whichloop`, and the command `whichloop`."""

from __future__ import annotations

import os
import signal
import sys
import threading

PATIENCE_S = 10.0
"""Seconds that a finished command waits for threads that a loop or a tool has started; some never end."""


def main() -> None:
    """Run the command. Ctrl-C is one line even while modules are still being imported."""
    code: int | str | None = 1
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as by `>&-`
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115
    try:
        from whichloop.cli.main import main as commands  # noqa: PLC0415  # takes a moment

        commands()
        code = 0
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(code := 130)
    except SystemExit as left:
        code = left.code
        raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left that Ctrl-C could end sooner
        leave = threading.Timer(PATIENCE_S, os._exit, (code if isinstance(code, int) else int(code is not None),))
        leave.daemon = True
        leave.start()


if __name__ == "__main__":
    main()
