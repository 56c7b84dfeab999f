"""System tables of roles, column privileges and dynamic privileges; see system_tables.py."""

from exuvia.catalog.static_ddl import table

ROLES = (
    table(
        40,
        "role_edges",
        "FROM_HOST char(255) not null",
        "FROM_USER char(32) not null",
        "TO_HOST char(255) not null",
        "TO_USER char(32) not null",
        "WITH_ADMIN_OPTION enum('N','Y') not null default 'N'",
        primary="FROM_HOST, FROM_USER, TO_HOST, TO_USER",
    ),
    table(
        41,
        "default_roles",
        "HOST char(255) not null",
        "USER char(32) not null",
        "DEFAULT_ROLE_HOST char(255) not null",
        "DEFAULT_ROLE_USER char(32) not null",
        primary="HOST, USER, DEFAULT_ROLE_HOST, DEFAULT_ROLE_USER",
    ),
    table(
        42,
        "columns_priv",
        "Host char(255) not null",
        "DB char(64) not null",
        "User char(32) not null",
        "Table_name char(64) not null",
        "Column_name char(64) not null",
        "Timestamp timestamp default current_timestamp",
        "Column_priv set('Select','Insert','Update','References')",
        primary="Host, DB, User, Table_name, Column_name",
    ),
    table(
        43,
        "global_grants",
        "USER char(32) not null",
        "HOST char(255) not null",
        "PRIV char(32) not null",
        "WITH_GRANT_OPTION enum('N','Y') not null default 'N'",
        primary="USER, HOST, PRIV",
    ),
)
