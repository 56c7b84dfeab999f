"""Every test that SQLAlchemy has for dialects."""

from sqlalchemy.testing.suite import *  # noqa: F403
