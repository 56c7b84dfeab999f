"""Alembic's part of the dialect, a plugin of it: what it knows of MySQL, under Exuvia's name.

Each schema change is a transaction of its own, so migrations run outside of one
(`transactional_ddl` is False, as of MySQL). After its own upgrade autogenerate finds no difference:
all names of the present time are the same default. An index with orders or expressions is compared
by its name, because reflection does not return these as written.
"""

import re
from typing import Any

from alembic.ddl import mysql
from alembic.ddl._autogen import ComparisonResult
from alembic.ddl.base import ColumnDefault, ColumnName, ColumnNullable, ColumnType
from alembic.ddl.mysql import MySQLImpl
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import Column, DropConstraint, Index

_NOW = re.compile(r"\b(?:now|localtime(?:stamp)?|current_timestamp)\b(?:\(\))?", re.IGNORECASE)


class ExuviaImpl(MySQLImpl):
    """MySQL's: types, defaults, and which indexes come with foreign keys."""

    __dialect__ = "exuvia"
    transactional_ddl = False

    def compare_server_default(
        self, inspector_column: Any, metadata_column: Any, metadata_default: Any, default: Any
    ) -> bool:
        """Whether they differ."""
        same = [
            text and _NOW.sub("current_timestamp", text) for text in (metadata_default, default)
        ]
        compare: Any = super().compare_server_default
        return bool(compare(inspector_column, metadata_column, *same))

    def compare_indexes(self, metadata_index: Index, reflected_index: Index) -> ComparisonResult:
        """The differences of an index of columns; of any other, only whether it is unique."""
        if all(isinstance(part, Column) for part in metadata_index.expressions):
            return super().compare_indexes(metadata_index, reflected_index)
        if bool(metadata_index.unique) != bool(reflected_index.unique):
            return ComparisonResult.Different("unique differs")
        return ComparisonResult.Equal()


_COMPILED = (
    *(ColumnDefault, ColumnName, ColumnNullable, ColumnType, DropConstraint),
    *(mysql.MySQLAlterDefault, mysql.MySQLChangeColumn, mysql.MySQLModifyColumn),
)
for _clause in _COMPILED:
    _of_mysql = vars(_clause)["_compiler_dispatcher"].specs["mysql"]
    compiles(_clause, ExuviaImpl.__dialect__)(_of_mysql)


def setup(plugin: Any) -> None:
    """Alembic's plugins have one; the implementation is known by having been imported."""
