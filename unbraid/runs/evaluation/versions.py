"""Versions of `encode` and `audit`: raise one when its numbers can change for the same weights and images.

Golden values in tests/contracts/test_measurement_versions.py fail when numbers change and no version was raised.
Each metric has its own version on its record in `unbraid.metrics.METRICS`.
"""

from __future__ import annotations

MEASUREMENT_VERSIONS = {"encode": 1, "audit": 1}
