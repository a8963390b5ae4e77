"""Tokens get an id, a kind, an end and a last use; passwords that were given out get an end."""

import secrets
import time

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_SESSION_S = 30 * 24 * 3600
_KINDS = {"browser": "session", "sign-in": "session", "embedded": "server"}


def upgrade() -> None:
    """Tokens of before keep working; those of sign-ins as long as if they were made now."""
    op.add_column("users", sa.Column("password_until", sa.Float))
    op.add_column("tokens", sa.Column("id", sa.String(16)))
    op.add_column("tokens", sa.Column("kind", sa.String(16)))
    op.add_column("tokens", sa.Column("expires_at", sa.Float))
    op.add_column("tokens", sa.Column("used_at", sa.Float))
    _fill(op.get_bind())
    with op.batch_alter_table("tokens") as table:
        table.alter_column("id", existing_type=sa.String(16), nullable=False)
        table.alter_column("kind", existing_type=sa.String(16), nullable=False)
    op.create_index("ix_tokens_id", "tokens", ["id"], unique=True)
    op.create_index("ix_tokens_user", "tokens", ["user"])


def _fill(connection: sa.Connection) -> None:
    tokens = sa.table(
        "tokens", *map(sa.column, ("digest", "label", "created_at", "id", "kind", "expires_at"))
    )
    for row in connection.execute(sa.select(tokens)).all():
        kind = _KINDS.get(row.label, "token")
        ends = time.time() + _SESSION_S if kind == "session" else None
        values = {"id": secrets.token_hex(5), "kind": kind, "expires_at": ends}
        connection.execute(sa.update(tokens).where(tokens.c.digest == row.digest).values(**values))
