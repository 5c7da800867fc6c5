"""The samples of a page, run in their order in an empty folder: `python -m tests.docs.samples PAGE… [--write]`.

- `sh`: each line is run. It may not fail, unless `# exit CODE` stands behind it.
- `python`: run, with the names of the page's earlier blocks. `python FILE`, or another language with a file: written to that file.
- `console`, `py`: not run, since they need a key, the network or a server.
- `text`, right behind a block that is run: what that block prints. A line `…` stands for any lines; `--write` renews the others.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tests.prepared import Prepared

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)(?: ([^\n]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"[|&;<>$*]")
RUN = re.compile(r"\b\d{8}-\d{6}-\w+-[0-9a-f]{4}\b")
"""The name of a run, which no two runs share."""
MORE = "…"


@dataclass(frozen=True)
class Sample:
    """A fenced block, and what it prints by the page."""

    language: str
    file: str
    text: str
    expected: re.Match[str] | None
    """The block right behind it."""


def samples(page: str) -> Iterator[Sample]:
    found = list(FENCE.finditer(page))
    for this, behind in zip(found, [*found[1:], None], strict=False):
        language, file, text = this.groups()
        follows = behind is not None and behind[1] == "text" and not page[this.end() : behind.start()].strip()
        yield Sample(language, file or "", text, behind if follows else None)


def is_run(sample: Sample) -> bool:
    return sample.language in ("sh", "python") and not sample.file


def printed_by(page: str, folder: Path) -> Iterator[tuple[Sample, str]]:
    """Run the samples of a page; yield each with what it prints. Raises AssertionError where one fails."""
    names = ModuleType("sample_of_a_page")
    with contextlib.chdir(folder), _module(names):
        for sample in samples(page):
            if sample.file:
                Path(sample.file).parent.mkdir(parents=True, exist_ok=True)
                Path(sample.file).write_text(sample.text, "utf-8")
            elif is_run(sample):
                said = _python(sample.text, names) if sample.language == "python" else _shell(sample.text, folder)
                lines = RUN.sub("RUN", said.replace(str(folder), "FOLDER")).rstrip().splitlines()
                yield sample, "".join(f"{line.rstrip()}\n" for line in lines)


@contextlib.contextmanager
def _module(names: ModuleType) -> Iterator[None]:
    """Within the block, the names are those of a module, as dataclasses want it, and the folder is searched for others."""
    before, path = {*sys.modules}, [*sys.path]
    sys.modules[names.__name__] = names
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path[:] = path
        for name in {*sys.modules} - before:
            if getattr(sys.modules[name], "__file__", None) is None or str(sys.modules[name].__file__).startswith(os.getcwd()):
                del sys.modules[name]


def _python(text: str, names: ModuleType) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(text, names.__name__, "exec"), vars(names))
    return said.getvalue()


def _shell(text: str, folder: Path) -> str:
    """Run each line: a command of ours as a fork of a process that has imported us, another one by bash."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "HOME": str(folder),
        "COLUMNS": "100",
        "LANG": "C.UTF-8",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{Path(__file__).with_name('without')}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "whichloop.pytest_plugin",
    }
    said = []
    for line in text.replace("\\\n", " ").splitlines():
        command, _, code = line.partition("# exit ")
        words = shlex.split(command, comments=True)
        if not words:
            continue
        module = words[2:] if words[:2] == ["python", "-m"] else words
        ours = module[0] in ("whichloop", "pytest") and not SHELL.search(command.replace("'", ""))
        safe = [] if words[0] == "python" else ["-P"]
        made = [sys.executable, *safe, "-m", *module] if ours else ["bash", "-euo", "pipefail", "-c", command]
        start = Prepared if ours else subprocess.Popen
        with start(made, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            out, errors = process.communicate(timeout=600)
        assert process.returncode == int(code or 0), f"{line}\nexit {process.returncode}\n{out}{errors}"
        said.append(out + (errors if process.returncode else ""))
    return "".join(said)


def is_shown(expected: str, printed: str) -> bool:
    """Whether a page's text is what was printed, where it has `…` any lines."""
    lines = [r"(?:.*\n)*?" if line == MORE else f"{re.escape(line)}\n" for line in expected.splitlines()]
    return re.fullmatch("".join(lines), printed) is not None


def renewed(page: Path) -> None:
    """Put into a page what its samples print. A text that ends with `…` stays as long as it was."""
    text = page.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        found = [(sample.expected, said) for sample, said in printed_by(text, Path(folder)) if sample.expected]
    for block, said in reversed(found):
        old = block[3]
        if is_shown(old, said):
            continue
        *lines, last = old.splitlines() or [""]
        if MORE in lines:
            print(f"{page.name}: {MORE} stands between lines, so mend it by hand:\n{said}")
            continue
        new = "".join(f"{line}\n" for line in [*said.splitlines()[: len(lines)], MORE]) if last == MORE else said
        text = f"{text[: block.start(3)]}{new}{text[block.end(3) :]}"
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    for name in [word for word in sys.argv[1:] if word != "--write"]:
        if "--write" in sys.argv:
            renewed(Path(name))
        else:
            with tempfile.TemporaryDirectory() as made_in:
                for each, output in printed_by(Path(name).read_text("utf-8"), Path(made_in)):
                    print(f"--- {each.text.splitlines()[0]}\n{output}")
