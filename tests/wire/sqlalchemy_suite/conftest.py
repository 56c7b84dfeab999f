"""SQLAlchemy's test plugin; this folder is a test run of its own (wire/test_sqlalchemy.py)."""

import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403
