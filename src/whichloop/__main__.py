"""`python -m whichloop`, and the command `whichloop`."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time

from whichloop.runs.gc_tuning import SELDOM

PATIENCE_S = 10.0
"""Seconds that a finished command waits for threads that a loop or a tool has started."""
_AGAIN_AFTER_S = 0.02
"""Seconds after which a Ctrl-C that Python has swallowed is pressed again."""


def main() -> None:
    """Run the command. Ctrl-C is one line even while modules are still being imported."""
    code: int | str | None = 1
    gc.set_threshold(*SELDOM)  # the import of what a command needs takes a tenth longer otherwise
    sys.unraisablehook = _press_again
    try:
        from whichloop.cli.main import main as commands  # takes a moment

        commands()
        code = 0
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(code := 130)
    except SystemExit as left:
        code = left.code
        raise
    finally:
        gc.freeze()  # else Python looks through all objects once more before it ends, for a fifth of a second
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left that Ctrl-C could end sooner
        threading.Thread(target=_leave, args=(code,), name="leave", daemon=True).start()


def _press_again(lost: sys.UnraisableHookArgs) -> None:
    """Press Ctrl-C again if it came within a destructor or a weak reference's callback, where Python drops what is raised."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    again = threading.Timer(_AGAIN_AFTER_S, signal.pthread_kill, (main_thread, signal.SIGINT))  # not here: it would be dropped, too
    again.daemon = True
    again.start()


def _leave(code: int | str | None) -> None:
    """Exit although threads are still running: Python waits for all of them, and some never end."""
    time.sleep(PATIENCE_S)
    others = (thread for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread())
    names = ", ".join(sorted(thread.name for thread in others))
    sys.stderr.write(f"left behind, because they did not end: threads that a loop or a tool has started ({names})\n")
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main()
