"""Public keys with which people come into their jobs by SSH."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "ssh_keys",
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("user", sa.String(64), sa.ForeignKey("users.name"), nullable=False),
        sa.Column("label", sa.String(128), nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
    )
    op.create_index("ix_ssh_keys_user", "ssh_keys", ["user"])
