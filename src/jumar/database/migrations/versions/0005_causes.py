"""Causes with their values, the engine and its handle; a job that was preempted is stopped."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. What has ended keeps its words and has no cause."""
    for table in ("jobs", "attempts"):
        op.add_column(table, sa.Column("cause", sa.String(32)))
        op.add_column(table, sa.Column("cause_values", sa.Text))
        engine = sa.Column("engine", sa.String(16), nullable=False, server_default="local")
        op.add_column(table, engine)
        op.add_column(table, sa.Column("handle", sa.String(256)))
    segment = sa.Column("segment", sa.Integer, nullable=False, server_default=sa.text("1"))
    op.add_column("attempts", segment)
    jobs = sa.table("jobs", sa.column("state"), sa.column("cause"))
    was_preempted = jobs.c.state == "preempted"
    op.execute(jobs.update().where(was_preempted).values(state="stopped", cause="preempted"))
