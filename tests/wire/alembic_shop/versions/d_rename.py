"""A column dropped, and a table that clients do not write yet renamed."""

import sqlalchemy as sa
from alembic import op

revision = "d"
down_revision = "c"


def upgrade() -> None:
    op.drop_column("orders", "weight")
    op.create_table("draft", sa.Column("id", sa.Integer, primary_key=True))
    op.rename_table("draft", "basket")


def downgrade() -> None:
    op.drop_table("basket")
    op.add_column("orders", sa.Column("weight", sa.Float, server_default="1.5"))
