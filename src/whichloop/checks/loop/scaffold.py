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

from {module} import {design}


def test_every_law_holds() -> None:
    broken = [finding for finding in check_loop({design}()) if finding.status == "failed"]
    assert not broken, broken
'''


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
    """Write `NAME.py` and `test_NAME.py` into a directory.

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
    loop, test = folder / f"{name}.py", folder / f"test_{name}.py"
    for path in (loop, test):
        if path.exists():
            raise ValueError(f"{path} already exists; nothing was written")
    is_known = name in sys.stdlib_module_names or importlib.util.find_spec(name) is not None
    if not packages and (is_known or name in builtin_names("loop")):
        raise ValueError(f"a built-in loop or an installed module is named {name!r}; choose another name")
    module = ".".join([*packages, name])
    camel_case = "".join(part.capitalize() for part in name.split("_"))
    design = camel_case if camel_case.endswith("Loop") else f"{camel_case}Loop"
    target = f"{module}:{design}"
    text = resources.files("whichloop.checks.loop").joinpath("template_loop.py").read_text(encoding="utf-8")
    names = {"template_loop:TemplateLoop": target, "template_loop": name, "TemplateLoop": design}
    for old, new in (names | {"ObjectCodec": f"{design.removesuffix('Loop')}Codec"}).items():
        text = text.replace(old, new)
    tested = TEST.format(name=name, module=module, design=design)
    for path, content in ((loop, text), (test, tested)):
        path.write_text(content, encoding="utf-8")
    return Scaffold(loop, test, root, target)
