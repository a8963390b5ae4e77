"""The Unix account of a user whom the kernel names."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Who signs in with a password has none."""
    op.add_column("users", sa.Column("uid", sa.BigInteger))
    op.add_column("users", sa.Column("unix_name", sa.String(64)))
    op.create_index("ix_users_uid", "users", ["uid"], unique=True)
