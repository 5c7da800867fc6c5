"""A user's first loop: the template under another name, and a test that checks the laws on it."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from whichloop.runs.built_in import builtin_names

TEST = '''\
"""The laws that every loop must keep, held against {name}."""

from whichloop.checks.loop import check_loop
{separation}from {module} import {design}


def test_every_law_holds() -> None:
    broken = [finding for finding in check_loop({design}()) if finding.status == "failed"]
    assert not broken, broken
'''


_PUBLIC_IMPORT = "from whichloop.loops import bounded, checked_options\n"
_OWN_IMPORTS = """\
from whichloop.loops.shared.boundary import bounded
from whichloop.loops.shared.option_checks import checked_options
"""  # a module of the package imports from modules


@dataclass(frozen=True, slots=True)
class Scaffold:
    """The written files and the name of the loop."""

    loop: Path
    test: Path
    root: Path
    """The directory from which `target` can be imported."""
    target: str
    """`package.module:Name`."""


def new_loop(name: str, folder: Path) -> Scaffold:
    """Write `NAME.py` and `test_NAME.py` into a directory; into that of the built-in loops `NAME.py`, the test among theirs.

    Raises ValueError for an invalid or taken name, for a missing directory, and if a file exists.
    """
    if keyword.iskeyword(name) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"{name!r} is no name for a loop: lowercase letters, digits and underscores, and no keyword of Python")
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a directory")
    root, packages = folder.resolve(), list[str]()  # packages: from the outermost to the folder
    while (root / "__init__.py").is_file():
        packages.insert(0, root.name)
        root = root.parent
    is_built_in = packages == ["whichloop", "loops"]  # these need no package name
    tests_of_loops = root.parent / "tests" / "loops"
    loop = folder / f"{name}.py"
    test = (tests_of_loops if is_built_in and tests_of_loops.is_dir() else folder) / f"test_{name}.py"
    for path in (loop, test):
        if path.exists():
            raise ValueError(f"{path} already exists; nothing was written")
    is_known = name in sys.stdlib_module_names or importlib.util.find_spec(name) is not None
    if not packages and (is_known or name in builtin_names("loop")):
        raise ValueError(f"a built-in loop or an installed module is named {name!r}; choose another name")
    module = ".".join([*packages, name])
    camel_case = "".join(part.capitalize() for part in name.split("_"))
    design = camel_case if camel_case.endswith("Loop") else f"{camel_case}Loop"
    target = name if is_built_in else f"{module}:{design}"
    text = resources.files("whichloop.checks.loop").joinpath("template_loop.py").read_text(encoding="utf-8")
    names = {"template_loop:TemplateLoop": target, "template_loop": name, "TemplateLoop": design}
    for old, new in (names | {"ObjectCodec": f"{design.removesuffix('Loop')}Codec"}).items():
        text = text.replace(old, new)
    if is_built_in:
        text = f"{text.replace(_PUBLIC_IMPORT, _OWN_IMPORTS)}\n\nLOOP = {design}\n"
    separation = "" if packages[:1] == ["whichloop"] else "\n"  # imports of another package stand apart
    tested = TEST.format(name=name, module=module, design=design, separation=separation)
    for path, content in ((loop, text), (test, tested)):
        path.write_text(content, encoding="utf-8")
    return Scaffold(loop, test, root, target)
