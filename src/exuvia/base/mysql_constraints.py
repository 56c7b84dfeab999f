"""MySQL's error codes of CHECK and FOREIGN KEY: SQLSTATE and text. See mysql.py."""

CONSTRAINTS: dict[int, tuple[str, str]] = {
    1215: (
        "HY000",
        "Cannot add foreign key constraint",
    ),
    1239: (
        "42000",
        "Incorrect foreign key definition for '%s': %s",
    ),
    1451: (
        "23000",
        "Cannot delete or update a parent row: a foreign key constraint fails (%s)",
    ),
    1452: (
        "23000",
        "Cannot add or update a child row: a foreign key constraint fails (%s)",
    ),
    1701: (
        "42000",
        "Cannot truncate a table referenced in a foreign key constraint (%s)",
    ),
    1822: (
        "HY000",
        "Failed to add the foreign key constraint. Missing index for constraint '%s' in "
        "the referenced table '%s'",
    ),
    1824: (
        "HY000",
        "Failed to open the referenced table '%s'",
    ),
    1826: (
        "HY000",
        "Duplicate foreign key constraint name '%s'",
    ),
    1828: (
        "HY000",
        "Cannot drop column '%s': needed in a foreign key constraint '%s'",
    ),
    1829: (
        "HY000",
        "Cannot drop column '%s': needed in a foreign key constraint '%s' of table '%s'",
    ),
    1830: (
        "HY000",
        "Column '%s' cannot be NOT NULL: needed in a foreign key constraint '%s' SET NULL",
    ),
    1832: (
        "HY000",
        "Cannot change column '%s': used in a foreign key constraint '%s'",
    ),
    1833: (
        "HY000",
        "Cannot change column '%s': used in a foreign key constraint '%s' of table '%s'",
    ),
    3008: (
        "HY000",
        "Foreign key cascade delete/update exceeds max depth of %s.",
    ),
    3104: (
        "HY000",
        "Cannot define foreign key with %s clause on a generated column.",
    ),
    3730: (
        "HY000",
        "Cannot drop table '%s' referenced by a foreign key constraint '%s' on table '%s'.",
    ),
    3733: (
        "HY000",
        "Foreign key '%s' uses virtual column '%s' which is not supported.",
    ),
    3734: (
        "HY000",
        "Failed to add the foreign key constraint. Missing column '%s' for constraint '%s' "
        "in the referenced table '%s'",
    ),
    3780: (
        "HY000",
        "Referencing column '%s' and referenced column '%s' in foreign key constraint '%s' "
        "are incompatible.",
    ),
    3812: (
        "HY000",
        "An expression of non-boolean type specified to a check constraint '%s'.",
    ),
    3813: (
        "HY000",
        "Column check constraint '%s' references other column.",
    ),
    3814: (
        "HY000",
        "An expression of a check constraint '%s' contains disallowed function: %s.",
    ),
    3815: (
        "HY000",
        "An expression of a check constraint '%s' contains disallowed function.",
    ),
    3816: (
        "HY000",
        "An expression of a check constraint '%s' cannot refer to a user or system variable.",
    ),
    3818: (
        "HY000",
        "Check constraint '%s' cannot refer to an auto-increment column.",
    ),
    3819: (
        "HY000",
        "Check constraint '%s' is violated.",
    ),
    3820: (
        "HY000",
        "Check constraint '%s' refers to non-existing column '%s'.",
    ),
    3822: (
        "HY000",
        "Duplicate check constraint name '%s'.",
    ),
    3823: (
        "HY000",
        "Column '%s' cannot be used in a check constraint '%s': needed in a foreign key "
        "constraint referential action.",
    ),
    3940: (
        "HY000",
        "Constraint '%s' does not exist.",
    ),
    3959: (
        "HY000",
        "Check constraint '%s' uses column '%s', hence column cannot be dropped or renamed.",
    ),
}
