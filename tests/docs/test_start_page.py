"""docs/start.md: what it installs runs the rest of the page."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.docs.pages import DOCS
from tests.docs.samples import ROOT, samples


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_page_can_be_followed_in_an_environment_that_it_makes(tmp_path):
    """From the package index that pip is set to, by a shell that knows nothing else."""
    found = [each for each in samples((DOCS / "start.md").read_text("utf-8")) if each.language in ("console", "sh")]
    install, *blocks = (re.sub(r"^(.*)# exit \d+$", r"\1 && exit 1 || true", each.text, flags=re.MULTILINE) for each in found)
    script = "\n".join(["set -euo pipefail", install.replace("git clone ADDRESS", f"git clone --quiet {ROOT}"), *blocks])
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.lower().endswith("_proxy")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COLUMNS": "100", "LANG": "C.UTF-8"} | kept
    ended = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (answer,) = (each.expected[3] for each in found if each.expected and "compare" in each.text)
    assert answer in ended.stdout
    assert not list((tmp_path / ".venv").glob("lib/*/site-packages/mlflow"))
