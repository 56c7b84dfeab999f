"""Which builder answers which spec of an ALTER TABLE (altering.py says what a builder is)."""

from exuvia.ddl.job import Job
from exuvia.sql import nodes
from exuvia.sql.define import (
    alter_columns,
    alter_indexes,
    alter_modify,
    alter_partition,
    alter_table_options,
    check,
    foreign_key,
    rename,
)
from exuvia.sql.define.altering import Altering, Build


def drop_constraint(at: Altering, spec: nodes.DropConstraint) -> Job | None:
    """DROP CHECK, DROP CONSTRAINT (3940), DROP FOREIGN KEY (1091)."""
    if spec.kind == "foreign key":
        return foreign_key.drop_key(at, spec.name)
    return check.drop_check(at, spec.name)


SPECS: dict[type[nodes.Spec], Build] = {
    nodes.AddColumn: alter_columns.add_column,
    nodes.AddIndex: alter_indexes.add_index,
    nodes.DropColumn: alter_columns.drop_column,
    nodes.DropIndex: alter_indexes.drop_index,
    nodes.ModifyColumn: alter_modify.modify_column,
    nodes.RenameColumn: alter_modify.rename_column,
    nodes.SetDefault: alter_modify.set_default,
    nodes.PartitionChange: alter_partition.change,
    nodes.RenameTo: rename.rename_to,
    nodes.TableOptions: alter_table_options.table_options,
    nodes.ConvertCharset: alter_table_options.convert_charset,
    nodes.AddCheck: check.add_check,
    nodes.DropConstraint: drop_constraint,
    nodes.AlterCheck: check.alter_check,
    nodes.AddForeignKey: foreign_key.add_key,
    nodes.IndexVisibility: alter_indexes.set_visibility,
    nodes.RenameIndex: alter_indexes.rename_index,
}
