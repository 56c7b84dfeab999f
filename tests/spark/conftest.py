"""The shared session."""

from support.spark import spark_store

__all__ = ["spark_store"]
