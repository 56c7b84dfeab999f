"""Indexes, keys and constraints, with a data migration that makes them possible."""

import sqlalchemy as sa
from alembic import op

revision = "c"
down_revision = "b"


def upgrade() -> None:
    buyer = sa.table("buyer", sa.column("id", sa.Integer), sa.column("email", sa.String))
    for number in op.get_bind().scalars(sa.select(buyer.c.id)).all():
        op.execute(
            buyer.update().where(buyer.c.id == number).values(email=f"b{number}@example.org")
        )
    op.alter_column("buyer", "email", existing_type=sa.String(80), nullable=False)
    op.create_unique_constraint("one_email", "buyer", ["email"])
    op.create_index("by_buyer", "orders", ["buyer", "placed"])
    op.create_index("by_note", "orders", ["note"], mysql_length=20)
    op.create_foreign_key("fk_buyer", "orders", "buyer", ["buyer"], ["id"], ondelete="CASCADE")
    op.create_check_constraint("amount_is_positive", "orders", "amount >= 0")
    op.create_table_comment("orders", "what was bought")


def downgrade() -> None:
    op.drop_table_comment("orders")
    op.drop_constraint("amount_is_positive", "orders", type_="check")
    op.drop_constraint("fk_buyer", "orders", type_="foreignkey")
    op.drop_index("by_note", "orders")
    op.drop_index("by_buyer", "orders")
    op.drop_constraint("one_email", "buyer", type_="unique")
    op.alter_column("buyer", "email", existing_type=sa.String(80), nullable=True)
