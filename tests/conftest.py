"""For all tests: failing assertions of shared helpers say what they compared, as those of tests do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.store.contract", "tests.store.kit")
