"""Jobs that wait for other jobs, and job arrays."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. No job of before waits for another."""
    op.add_column("jobs", sa.Column("array_id", sa.String(16)))
    op.add_column("jobs", sa.Column("array_index", sa.Integer))
    waits = sa.Column("waits", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("jobs", waits)
    op.create_index("ix_jobs_array", "jobs", ["array_id"])
