"""Jobs of ModelArts' clients, and what those were answered."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the two tables."""
    op.create_table(
        "modelarts_jobs",
        sa.Column("job_id", sa.String(16), primary_key=True),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("asked", sa.Text, nullable=False),
        sa.Column("series", sa.BigInteger),
        sa.Column("version", sa.Integer),
        sa.Column("log_url", sa.Text),
        sa.Column("is_deleted", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.create_index("ix_modelarts_jobs_series", "modelarts_jobs", ["series", "version"])
    op.create_table(
        "modelarts_answers",
        sa.Column("signature", sa.String(64), primary_key=True),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
