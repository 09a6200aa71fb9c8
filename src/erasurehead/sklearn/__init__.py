"""Estimators for scikit-learn: its linear models by its names, trained by the one training loop."""

from erasurehead.sklearn.classification import LogisticRegression as LogisticRegression
from erasurehead.sklearn.cross_validation import ElasticNetCV as ElasticNetCV
from erasurehead.sklearn.cross_validation import LogisticRegressionCV as LogisticRegressionCV
from erasurehead.sklearn.cross_validation import RidgeCV as RidgeCV
from erasurehead.sklearn.regression import ElasticNet as ElasticNet
from erasurehead.sklearn.regression import LinearRegression as LinearRegression
from erasurehead.sklearn.regression import Ridge as Ridge
