"""One moment of a store for all tasks of one or more DataFrames, from exuvia/pipeline/moment.py,
which backups of rows use too."""

from exuvia.pipeline.moment import one_moment

__all__ = ["one_moment"]
