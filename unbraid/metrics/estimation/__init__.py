"""Estimators behind the metrics: information, importances, linear models, correlations."""
