"""How many devices a user may hold, where that is not what everybody may."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "quotas",
        sa.Column("user", sa.String(64), sa.ForeignKey("users.name"), primary_key=True),
        sa.Column("devices", sa.Integer, nullable=False),
    )
