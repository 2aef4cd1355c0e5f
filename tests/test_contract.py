"""scikit-learn's own checks, all of them, with none expected to fail."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from pellucid import PCX, TELL, DeepKMeans, KernelNet, KMeansNet


@pytest.mark.filterwarnings("default::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([TELL(), DeepKMeans(), KMeansNet(), PCX(), KernelNet()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)
