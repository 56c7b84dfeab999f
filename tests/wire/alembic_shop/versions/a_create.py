"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "a"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "buyer",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("mail", sa.String(80)),
    )
    op.create_table(
        "orders",
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("buyer", sa.Integer, nullable=False),
        sa.Column("amount", sa.Integer, nullable=False),
        sa.Column("note", sa.String(20)),
        sa.Column("state", sa.SmallInteger, nullable=False, server_default="0"),
    )
    op.bulk_insert(
        sa.table("buyer", sa.column("id"), sa.column("name")),
        [{"id": n, "name": f"buyer {n}"} for n in range(1, 11)],
    )


def downgrade() -> None:
    op.drop_table("orders")
    op.drop_table("buyer")
