"""Configurations of training jobs that clients of ModelArts' v1 keep by name."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "modelarts_configs",
        sa.Column("project", sa.String(64), primary_key=True),
        sa.Column("user", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
    )
