"""docs/start.md is followed word by word in an empty folder. `--write` renews what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, preformatted, write_output

PAGE = DOCS / "start.md"
INSTALL = "pip install"
MAX_FAILURE_LINES = 10


def scripts() -> list[str]:
    """Return the page's blocks of commands, without the one that installs."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [block for block in blocks if INSTALL not in block]


def followed(folder: Path) -> list[str]:
    """Run the blocks one after the other in a folder as a new user's shell would, and return what each prints.

    As the page has it installed: without MLflow, and pytest with no plugin but ours.
    """
    source, hidden = Path(__file__).parents[2] / "src", folder / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['mlflow'] = None\n", encoding="utf-8")
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "COLUMNS": "80",
        "PYTHONPATH": f"{hidden}{os.pathsep}{source}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "loopbench.pytest_plugin",
        "LANG": "C.UTF-8",
    } | {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS")}
    printed = []
    for script in scripts():
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        printed.append(done.stdout)
    return printed


def shown(printed: list[str]) -> tuple[str, str]:
    """Return the answer of the comparison, and the beginning of the failure."""
    _, compared, _, failed = printed
    begin = failed.index("regression: ")
    failure = re.sub(r"\S+-loop_tasks-\w+", "RUN", failed[begin:]).splitlines()[:MAX_FAILURE_LINES]
    return compared.strip(), "\n".join(line.rstrip() for line in [*failure, "…"])


@pytest.mark.thorough
def test_the_page_can_be_followed_word_by_word(tmp_path):
    printed = followed(tmp_path)
    assert printed[-1].rstrip().endswith("as it should")
    assert "2 passed" in printed[2]
    assert shown(printed) == (preformatted(PAGE, "answer"), preformatted(PAGE, "failure"))
    table = PAGE.read_text(encoding="utf-8")
    for name in re.findall(r"^wrote (\S+)$", printed[0], re.MULTILINE):
        assert f"| `{name}` |" in table
        assert (tmp_path / name).is_file()


if __name__ == "__main__" and "--write" in sys.argv:
    with tempfile.TemporaryDirectory() as made_in:
        answer, failure = shown(followed(Path(made_in)))
    write_output(PAGE, "answer", answer)
    write_output(PAGE, "failure", failure)
