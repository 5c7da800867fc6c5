"""SciPy's distribution functions, loaded without the package around them: the same ones, and that package is whole afterwards."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.special
from scipy import stats

from tests.prepared import ran_in_fork
from whichloop.metrics import special

LOADED = """
import sys
from whichloop.metrics import special
print([name for name in ("numpy.f2py", "scipy.special", "scipy.stats") if name in sys.modules])
import scipy.special, scipy.stats
print(scipy.special._ufuncs.betaincinv is special.betaincinv, scipy.special.expit(0.0), scipy.stats.norm.cdf(0.0))
"""
SHARES = np.linspace(0.001, 0.999, 25)


def test_the_package_around_them_is_not_imported_and_is_whole_once_it_is(tmp_path: Path) -> None:
    """In a process that has imported all commands."""
    done = ran_in_fork(LOADED, tmp_path)
    assert done.stdout.splitlines() == ["[]", "True 0.5 0.5"]


@pytest.mark.parametrize("name", special.NAMES)
def test_each_function_is_scipys(name: str) -> None:
    ours, theirs = getattr(special, name), getattr(scipy.special, name)
    places = [SHARES] if ours.nin == 1 else [np.array([[1.0], [4.0], [30.0]]), SHARES]
    if ours.nin == 3:
        places.insert(1, np.array([[2.5], [1.0], [300.0]]))
    assert np.array_equal(ours(*places), theirs(*places))


def test_they_are_what_scipys_distributions_say() -> None:
    assert special.betaincinv(3, 8, SHARES) == pytest.approx(stats.beta(3, 8).ppf(SHARES), rel=1e-12)
    assert special.betainc(3, 8, SHARES) == pytest.approx(stats.beta(3, 8).cdf(SHARES), rel=1e-12)
    assert special.ndtri(SHARES) == pytest.approx(stats.norm.ppf(SHARES), rel=1e-12, abs=1e-15)
    assert special.stdtrit(7, SHARES) == pytest.approx(stats.t(7).ppf(SHARES), rel=1e-9, abs=1e-12)
    assert special.stdtr(7, SHARES) == pytest.approx(stats.t(7).cdf(SHARES), rel=1e-12)
    assert special.chdtri(7, SHARES) == pytest.approx(stats.chi2(7).isf(SHARES), rel=1e-12)


def test_a_scipy_that_keeps_them_elsewhere_is_imported_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sys.modules["scipy.special"]
    monkeypatch.delitem(sys.modules, "scipy.special")
    monkeypatch.setitem(sys.modules, "scipy.special._ufuncs", ModuleType("scipy.special._ufuncs"))
    monkeypatch.setattr(special, "import_module", lambda name: whole if name == "scipy.special" else importlib.import_module(name))
    assert special._functions() is whole
    assert "scipy.special" not in sys.modules
