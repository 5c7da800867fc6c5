"""The wheel and the source archive, built from the clone and used without it."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import EntryPoint
from pathlib import Path, PurePosixPath

import pytest

from tests.core_only import ROOT, make, project

pytestmark = pytest.mark.thorough


def in_source() -> set[str]:
    """Return the files that git knows below src, as they are named in a wheel."""
    listed = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {str(PurePosixPath(name).relative_to("src")) for name in listed}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built by setuptools itself, as pip and `python -m build` let it, but without an environment of its own."""
    folder = tmp_path_factory.mktemp("built")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / "clone")], check=True)
    code = f"from setuptools import build_meta; build_meta.build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=folder / "clone", check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_holds_every_file_of_the_source_and_nothing_else(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == in_source()


def test_the_citation_is_of_this_version():
    lines = (ROOT / "CITATION.cff").read_text("utf-8").splitlines()
    assert {f"version: {project()['version']}", f"license: {project()['license']}", "cff-version: 1.2.0"} <= {*lines}


def said_in(wheel: Path, name: str) -> str:
    """Return the text of a file that tells about the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (place,) = (each for each in archive.namelist() if each.endswith(f".dist-info/{name}"))
        return archive.read(place).decode()


def test_the_wheel_names_every_extra_its_command_and_its_plugin_of_pytest(wheel):
    extras = [line.partition(": ")[2] for line in said_in(wheel, "METADATA").splitlines() if line.startswith("Provides-Extra: ")]
    assert {*extras} == {*project()["optional-dependencies"]}
    declared = configparser.ConfigParser()
    declared.read_string(said_in(wheel, "entry_points.txt"))
    groups = {name: dict(group) for name, group in declared.items() if group}
    assert groups == {"console_scripts": project()["scripts"], **project()["entry-points"]}


@pytest.mark.parametrize("name", project()["scripts"])
def test_a_declared_command_leads_to_a_function(name):
    assert callable(EntryPoint(name, project()["scripts"][name], "console_scripts").load())


IN_ONE_PROCESS = """
import sys
from whichloop.cli.main import main
for words in sys.argv[1:]:
    print("---", flush=True)
    sys.argv = ["whichloop", *words.split()]
    try:
        main()
    except SystemExit as left:
        assert not left.code, words
"""
"""Commands one after the other, each below a line of its own: most of what each costs is the start of Python."""
COMPARE = "compare --config whichloop.toml --tasks 4"


@pytest.mark.slow
def test_the_wheel_works_in_an_environment_of_its_own(wheel, tmp_path):
    environment = tmp_path / "environment"
    venv.create(environment)
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", wheel]
    subprocess.run(install, check=True, capture_output=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    make(packages, project()["dependencies"])
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    variables = {"PATH": f"{environment / 'bin'}{os.pathsep}{os.defpath}", "HOME": str(tmp_path), "LANG": "C.UTF-8"}

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "compare" in run("whichloop", "--help")
    said = run("python", "-c", IN_ONE_PROCESS, "list profiles", "list suites", "list frameworks", "init", COMPARE)
    _, profiles, suites, frameworks, _, compared = said.split("---\n")
    for listed, name in ((profiles, "flaky-tools"), (suites, "arithmetic"), (frameworks, "langgraph")):
        assert name in listed
    title, columns, *arms = compared.splitlines()
    assert "accuracy" in title
    assert columns.split()[:3] == ["loop", "flaky-tools", "flaky-format"]
    assert {row.split()[0] for row in arms[:2]} == {"bare", "finish"}
    assert list(folder.glob("runs/*/report.html"))
    assert Path(shutil.which("whichloop", path=variables["PATH"]) or "").parent == environment / "bin"
