"""Alembic's environment: the URL and the metadata come from the test, by attributes."""

from alembic import context
from sqlalchemy import create_engine

engine = create_engine(context.config.attributes["url"])
with engine.connect() as connection:
    context.configure(
        connection=connection, target_metadata=context.config.attributes.get("metadata")
    )
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
