"""Jobs that people keep to fill the submit form from, and what ended lately."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table and the index."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "job_templates",
        sa.Column("id", number, primary_key=True, autoincrement=True),
        sa.Column("user", sa.String(64), sa.ForeignKey("users.name"), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("is_shared", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.UniqueConstraint("user", "name", name="uq_job_templates_user_name"),
    )
    op.create_index("ix_jobs_finished", "jobs", ["finished_at"])
