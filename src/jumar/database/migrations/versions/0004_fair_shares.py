"""Fair turns: groups and their members, what everybody has used, and ranks of jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables. What was used before is not counted: everybody begins alike."""
    op.create_table(
        "groups",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("share", sa.Float, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
    )
    op.create_table(
        "group_members",
        sa.Column("user", sa.String(64), sa.ForeignKey("users.name"), primary_key=True),
        sa.Column("group", sa.String(64), sa.ForeignKey("groups.name"), nullable=False),
        sa.Column("share", sa.Float, nullable=False),
    )
    op.create_table(
        "card_use",
        sa.Column("user", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(8), primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sa.Column("card_s", sa.Float, nullable=False),
    )
    groups = sa.table("groups", sa.column("name"), sa.column("share"), sa.column("created_at"))
    op.execute(groups.insert().values(name="default", share=1.0, created_at=0.0))
    op.add_column(
        "jobs", sa.Column("rank", sa.Integer, nullable=False, server_default=sa.text("100"))
    )
    jobs = sa.table("jobs", sa.column("user"), sa.column("rank"), sa.column("priority"))
    users = sa.table("users", sa.column("name"), sa.column("role"))
    admins = sa.select(users.c.name).where(users.c.role == "admin")
    op.execute(jobs.update().where(jobs.c.user.in_(admins)).values(rank=jobs.c.priority))
    op.create_index("ix_jobs_user_state", "jobs", ["user", "state"])
