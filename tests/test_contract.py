"""scikit-learn's own checks, all of them, with none expected to fail; and what `help` tells."""

from __future__ import annotations

import inspect
import re
from ast import literal_eval

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from pellucid import PCX, TELL, DeepKMeans, KernelNet, KMeansNet
from pellucid.base import ENTRY, PARAMETERS

ESTIMATORS = [TELL, DeepKMeans, KMeansNet, PCX, KernelNet]


@pytest.mark.filterwarnings("default::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([cls() for cls in ESTIMATORS])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_help_tells_every_parameter_once_with_its_default(cls):
    section = inspect.getdoc(cls).partition(PARAMETERS)[2].partition("\n\n")[0]
    given, told = inspect.signature(cls).parameters, []
    for names, kind, _ in ENTRY.findall(section):
        default = re.search(r"default=(.+)$", kind)
        for name in names.split(", "):
            told.append(name)
            assert default is None or literal_eval(default[1]) == given[name].default, name
    assert sorted(told) == sorted(given)
    assert "As in `DeepClusterer`" not in section
    assert "restart_scores_" in inspect.getdoc(cls).partition("Attributes\n")[2]
