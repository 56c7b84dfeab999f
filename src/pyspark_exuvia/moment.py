"""One moment of a store for all tasks of one or many DataFrames: what it is stands in
exuvia/pipeline/moment.py, which a backup of rows uses too."""

from exuvia.pipeline.moment import one_moment

__all__ = ["one_moment"]
