"""Failing assertions of the stage say what they compared, as those of tests do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.node.stage")
