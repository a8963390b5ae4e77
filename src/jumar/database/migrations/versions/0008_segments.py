"""Segments of jobs, whose fault an end was, and who makes room for whom."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. Jobs of before are in their first segment."""
    op.add_column("jobs", sa.Column("segment", sa.Integer, nullable=False, server_default="1"))
    op.add_column("jobs", sa.Column("stale", sa.Integer, nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("avoids", sa.Text))
    op.add_column("jobs", sa.Column("yields_to", sa.String(16)))
    op.add_column("jobs", sa.Column("preemptions", sa.Integer, nullable=False, server_default="0"))
    op.add_column("attempts", sa.Column("whose", sa.String(16)))
    op.add_column("attempts", sa.Column("saved", sa.Text))
    op.add_column("attempts", sa.Column("advanced", sa.Boolean))
    op.add_column("attempts", sa.Column("ending_at", sa.Float))
    op.add_column("attempts", sa.Column("noticed_at", sa.Float))
