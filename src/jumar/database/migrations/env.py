"""Alembic's entry: it runs the steps on the connection that `open_database` hands over."""

from alembic import context

from jumar.database.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=True,
    transaction_per_migration=False,
)
context.run_migrations()
