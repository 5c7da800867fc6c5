"""Baselines that cannot be read, and what to do about them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

ANEW = "bless it again"
CONFLICT = b"<<<<<<<"
"""What a line begins with from which on git could not merge two versions of a file."""
POINTER = b"version https://git-lfs.github.com/spec/"
"""What a file begins with that Git LFS keeps elsewhere and has not fetched (git-lfs, docs/spec.md)."""
SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class BaselineCure:
    """What to do about a baseline that cannot be read."""

    command: str = ""
    """The command that is tried first; empty where there is none but to bless again."""
    effect: str = ""
    """What it does, as it follows on the command."""
    otherwise: str = ANEW
    """What to do after it or instead, the last thing being to bless it again."""

    @property
    def words(self) -> str:
        """The whole in one line."""
        return f"{self.command}{self.effect}; {self.otherwise}" if self.command else self.otherwise


class DamagedBaseline(ValueError):
    """A file that is, or once was, a baseline cannot be read as one; the text says why in one line, and names the file."""

    def __init__(self, path: Path, reason: str, cure: BaselineCure | None = None) -> None:
        self.path = path
        self.reason = " ".join(reason.split())
        self.cure = cure or BaselineCure()
        super().__init__(" ".join(f"{path}: {reason}; {self.cure.words}".split()))


def has_conflict(text: bytes) -> bool:
    """Say whether git left two versions in a file that it could not merge."""
    return text.startswith(CONFLICT) or b"\n" + CONFLICT in text


def cure_of(path: Path, text: bytes) -> BaselineCure:
    """Return what to do about a damaged file with this text: within a repository, what was committed is there still."""
    file = shlex.quote(str(path))
    if has_conflict(text):
        one_side = " (or --theirs) takes one side while the merge is under way"
        return BaselineCure(f"git checkout --ours -- {file}", one_side, f"once it is committed, {ANEW}")
    if not any((folder / ".git").exists() for folder in path.absolute().parents):
        return BaselineCure()
    older = f"git log -- {file} lists its commits, and git checkout GOOD -- {file} takes it from the commit GOOD"
    return BaselineCure(
        f"git checkout -- {file}", " brings back the committed one", f"if that is damaged, too, {older}; else {ANEW}"
    )


def check_suffix(setting: str, path: Path) -> None:
    """Raise ValueError, which names the setting, for a baseline whose name is not one of a JSON file."""
    if path.suffix.lower() != SUFFIX:
        raise ValueError(f"{setting}: a baseline is a file NAME{SUFFIX}, such as gates/mine{SUFFIX}, got {str(path)!r}")
