"""For all tests: failing assertions of shared helpers say what they compared, as those of tests do.

No test fails because the machine was busy for a moment.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.store.contract", "tests.store.kit")

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
