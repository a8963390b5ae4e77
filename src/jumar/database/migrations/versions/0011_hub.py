"""Repositories of the hub, their LFS objects and locks."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "hub_repos",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("name", sa.String(96), nullable=False),
        sa.Column("folded", sa.String(200), nullable=False, unique=True),
        sa.Column("private", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("changed_at", sa.Float, nullable=False),
        sa.Column("card", sa.Text, nullable=False, server_default="{}"),
        sa.Column("git_bytes", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_index("ix_hub_repos_owner", "hub_repos", ["owner"])
    op.create_table(
        "hub_objects",
        sa.Column("oid", sa.String(64), primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("stored", sa.String(128), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("dead_at", sa.Float),
    )
    op.create_table(
        "hub_links",
        sa.Column("repo", sa.String(32), sa.ForeignKey("hub_repos.id"), primary_key=True),
        sa.Column("oid", sa.String(64), sa.ForeignKey("hub_objects.oid"), primary_key=True),
        sa.Column("touched_at", sa.Float, nullable=False),
    )
    op.create_index("ix_hub_links_oid", "hub_links", ["oid"])
    op.create_table(
        "hub_locks",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("repo", sa.String(32), sa.ForeignKey("hub_repos.id"), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("user", sa.String(64), nullable=False),
        sa.Column("locked_at", sa.Float, nullable=False),
        sa.UniqueConstraint("repo", "path", name="uq_hub_locks_repo_path"),
    )
