"""Tags of jobs, read-only links to them, who changed what, and people of a sign-in provider."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the four tables, and two indexes for the list of jobs."""
    op.create_index("ix_jobs_search", "jobs", ["name", "id", "array_id", "state", "user"])
    op.create_index("ix_jobs_took", "jobs", ["started_at", "finished_at"])
    op.create_table(
        "job_tags",
        sa.Column("job_id", sa.String(16), primary_key=True),
        sa.Column("tag", sa.String(32), primary_key=True),
    )
    op.create_index("ix_job_tags_tag", "job_tags", ["tag", "job_id"])
    op.create_table(
        "share_links",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("user", sa.String(64), sa.ForeignKey("users.name"), nullable=False),
        sa.Column("jobs", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float),
    )
    op.create_index("ix_share_links_id", "share_links", ["id"], unique=True)
    op.create_index("ix_share_links_user", "share_links", ["user"])
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "audit",
        sa.Column("seq", number, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("user", sa.String(64), nullable=False),
        sa.Column("method", sa.String(8), nullable=False),
        sa.Column("path", sa.String(512), nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
    )
    op.create_index("ix_audit_user_seq", "audit", ["user", "seq"])
    op.create_table(
        "oidc_identities",
        sa.Column("issuer", sa.String(512), primary_key=True),
        sa.Column("subject", sa.String(255), primary_key=True),
        sa.Column("user", sa.String(64), sa.ForeignKey("users.name"), nullable=False),
    )
