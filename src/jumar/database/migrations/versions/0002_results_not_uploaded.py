"""Jobs whose results could not be uploaded are marked."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the mark; all jobs so far had nothing to upload."""
    mark = sa.Column("not_uploaded", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("jobs", mark)
