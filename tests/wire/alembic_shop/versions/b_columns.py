"""Columns added, widened, given defaults, made NOT NULL, renamed; rows filled in between."""

import sqlalchemy as sa
from alembic import op

revision = "b"
down_revision = "a"


def upgrade() -> None:
    op.add_column("orders", sa.Column("placed", sa.DateTime, server_default=sa.func.now()))
    op.add_column("orders", sa.Column("currency", sa.String(3), nullable=True))
    op.execute("UPDATE orders SET currency = 'EUR' WHERE currency IS NULL")
    op.alter_column(
        "orders", "currency", existing_type=sa.String(3), existing_nullable=True,
        server_default="EUR",
    )  # fmt: skip
    op.alter_column(
        "orders", "amount", existing_type=sa.Integer, existing_nullable=False,
        type_=sa.Numeric(14, 2),
    )  # fmt: skip
    op.alter_column("orders", "note", existing_type=sa.String(20), type_=sa.String(400))
    with op.batch_alter_table("orders") as batch:
        batch.alter_column("state", existing_type=sa.SmallInteger, type_=sa.Integer,
                           existing_nullable=False, existing_server_default="0")  # fmt: skip
        batch.add_column(sa.Column("weight", sa.Float, server_default="1.5"))
    op.alter_column(
        "buyer", "mail", new_column_name="email", existing_type=sa.String(80),
        existing_nullable=True,
    )  # fmt: skip


def downgrade() -> None:
    op.alter_column(
        "buyer", "email", new_column_name="mail", existing_type=sa.String(80),
        existing_nullable=True,
    )  # fmt: skip
    with op.batch_alter_table("orders") as batch:
        batch.drop_column("weight")
        batch.alter_column("state", existing_type=sa.Integer, type_=sa.SmallInteger,
                           existing_nullable=False, existing_server_default="0")  # fmt: skip
    op.alter_column("orders", "note", existing_type=sa.String(400), type_=sa.String(20))
    op.alter_column(
        "orders", "amount", existing_type=sa.Numeric(14, 2), existing_nullable=False,
        type_=sa.Integer,
    )  # fmt: skip
    op.drop_column("orders", "currency")
    op.drop_column("orders", "placed")
