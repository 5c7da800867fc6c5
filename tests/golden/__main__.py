"""Golden values: what equal input must go on giving. `python -m tests.golden` compares them all, `--write [NAME …]` renews them.

They are data, never sentences: digests of runs, hashes of prompts, facts of verdicts, outcomes of the gate. A golden value
changes only where an issue says so, in a commit of its own. Names: digests, prompts, verdicts, gates, imports.
"""

from __future__ import annotations

import sys

from tests.golden.cases import MAKERS, differences, write


def main(words: list[str]) -> int:
    names = [word for word in words if word != "--write"] or list(MAKERS)
    if unknown := [name for name in names if name not in MAKERS]:
        print(f"{', '.join(unknown)}: no golden values; known are {', '.join(MAKERS)}", file=sys.stderr)
        return 2
    changed = 0
    for name in names:
        for case, made in MAKERS[name]():
            lines = differences(name, case, made)
            changed += len(lines)
            print("\n".join([f"{name} {case}: {'changed' if lines else 'equal'}", *lines]), flush=True)
            if "--write" in words:
                write(name, case, made)
    return 0 if "--write" in words or not changed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
