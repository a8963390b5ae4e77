"""The tables. Their changes over time are in `migrations/`; a test keeps the two alike."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)

metadata = MetaData()
# SQLite only counts rows by itself in a column of type INTEGER.
_Sequence = BigInteger().with_variant(Integer, "sqlite")

users = Table(
    "users",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("password", String(256)),
    Column("created_at", Float, nullable=False),
    # Only of a password that an administrator gave out: until when it lets in.
    Column("password_until", Float),
    # Only of people whom the kernel of a site's machine names.
    Column("uid", BigInteger),
    Column("unix_name", String(64)),
    Index("ix_users_uid", "uid", unique=True),
)

tokens = Table(
    "tokens",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("user", String(64), ForeignKey("users.name"), nullable=False),
    Column("label", String(128), nullable=False),
    Column("created_at", Float, nullable=False),
    # What lists and people call it by: neither the secret nor its digest is ever shown.
    Column("id", String(16), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("expires_at", Float),
    Column("used_at", Float),
    Index("ix_tokens_id", "id", unique=True),
    Index("ix_tokens_user", "user"),
)

# Public keys with which people come into their jobs by SSH.
ssh_keys = Table(
    "ssh_keys",
    metadata,
    Column("fingerprint", String(64), primary_key=True),
    Column("user", String(64), ForeignKey("users.name"), nullable=False),
    Column("label", String(128), nullable=False),
    Column("key", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Index("ix_ssh_keys_user", "user"),
)

login_codes = Table(
    "login_codes",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("user", String(64), ForeignKey("users.name"), nullable=False),
    Column("expires_at", Float, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("seq", _Sequence, primary_key=True, autoincrement=True),
    Column("id", String(16), nullable=False, unique=True),
    Column("user", String(64), nullable=False),
    Column("submit_key", String(128)),
    Column("name", String(128), nullable=False),
    Column("state", String(16), nullable=False),
    # Why it stands so: a name of spec/causes.py and its values (JSON); `reason` is the same in
    # English, and all that jobs of an older jumar have.
    Column("cause", String(32)),
    Column("cause_values", Text),
    Column("reason", Text),
    # Where it runs, and what that engine calls it.
    Column("engine", String(16), nullable=False, server_default="local"),
    Column("handle", String(256)),
    Column("spec", Text, nullable=False),
    Column("notes", Text, nullable=False),
    Column("kind", String(8), nullable=False),
    Column("count", Integer, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("priority", Integer, nullable=False),
    # What an administrator gave it, which orders the whole line; the usual one for all others.
    Column("rank", Integer, nullable=False, server_default="100"),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("finished_at", Float),
    Column("attempt", Integer, nullable=False),
    # Results of an ended job that are only on its machine yet.
    Column("not_uploaded", Boolean, nullable=False, server_default=false()),
    # The array that it is one job of, and which one.
    Column("array_id", String(16)),
    Column("array_index", Integer),
    # Queued, and not in the line yet: other jobs come first.
    Column("waits", Boolean, nullable=False, server_default=false()),
    # Which of its time limits it is in, and how many before that came no further.
    Column("segment", Integer, nullable=False, server_default="1"),
    Column("stale", Integer, nullable=False, server_default="0"),
    # JSON, as `cards` of attempts: cards that failed under it.
    Column("avoids", Text),
    # The job that it made room for: it is not started before that one.
    Column("yields_to", String(16)),
    Column("preemptions", Integer, nullable=False, server_default="0"),
    UniqueConstraint("user", "submit_key", name="uq_jobs_user_submit_key"),
    Index("ix_jobs_state_seq", "state", "seq"),
    Index("ix_jobs_user_seq", "user", "seq"),
    Index("ix_jobs_name_seq", "name", "seq"),
    Index("ix_jobs_user_state", "user", "state"),
    Index("ix_jobs_array", "array_id"),
    Index("ix_jobs_finished", "finished_at"),
    # For searching and sorting without reading the rows themselves, which are large.
    Index("ix_jobs_search", "name", "id", "array_id", "state", "user"),
    Index("ix_jobs_took", "started_at", "finished_at"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("job_seq", _Sequence, ForeignKey("jobs.seq"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("state", String(16), nullable=False),
    Column("engine", String(16), nullable=False, server_default="local"),
    Column("handle", String(256)),
    Column("segment", Integer, nullable=False, server_default="1"),
    # JSON: the ids of its cards by node; of an older jumar a list of ids.
    Column("cards", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("finished_at", Float),
    Column("exit_code", Integer),
    Column("cause", String(32)),
    Column("cause_values", Text),
    Column("reason", Text),
    Column("tail", Text),
    # Of one that failed: script, card, network, host or memory.
    Column("whose", String(16)),
    # The last whole checkpoint, and whether this attempt wrote it.
    Column("saved", Text),
    Column("advanced", Boolean),
    # When the first rank failed or all were asked to end, and when the server saw that all was over.
    Column("ending_at", Float),
    Column("noticed_at", Float),
)

groups = Table(
    "groups",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("share", Float, nullable=False),
    Column("created_at", Float, nullable=False),
)

# Who is not in it is in the default group, with a share of 1.
group_members = Table(
    "group_members",
    metadata,
    Column("user", String(64), ForeignKey("users.name"), primary_key=True),
    Column("group", String(64), ForeignKey("groups.name"), nullable=False),
    Column("share", Float, nullable=False),
)

# Who is not in it may hold what everybody may (`user_limit`).
quotas = Table(
    "quotas",
    metadata,
    Column("user", String(64), ForeignKey("users.name"), primary_key=True),
    Column("devices", Integer, nullable=False),
)

# Card-seconds of attempts that have ended, by the day (UTC). It outlives the jobs: who removes them
# has still used the cards.
card_use = Table(
    "card_use",
    metadata,
    Column("user", String(64), primary_key=True),
    Column("kind", String(8), primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("card_s", Float, nullable=False),
)

# Of jobs that clients of ModelArts made or changed: what they asked for, to be told it again.
modelarts_jobs = Table(
    "modelarts_jobs",
    metadata,
    # Not a foreign key: jobs are removed by those who know nothing of this.
    Column("job_id", String(16), primary_key=True),
    Column("project", String(64), nullable=False),
    Column("asked", Text, nullable=False),
    # v1 numbers jobs and their versions: the first version's row in `jobs`, and which version it is.
    Column("series", BigInteger),
    Column("version", Integer),
    # Where the logs have to be sent once the job has ended; empty again when they are.
    Column("log_url", Text),
    # Deleted by its client: the job goes as soon as it has ended.
    Column("is_deleted", Boolean, nullable=False, server_default=false()),
    Index("ix_modelarts_jobs_series", "series", "version"),
)

# A signature has no nonce: who sends a request again gets the answer that it had.
modelarts_answers = Table(
    "modelarts_answers",
    metadata,
    Column("signature", String(64), primary_key=True),
    Column("status", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Float, nullable=False),
)

# Configurations that clients of ModelArts' v1 keep by name, as they sent them.
modelarts_configs = Table(
    "modelarts_configs",
    metadata,
    Column("project", String(64), primary_key=True),
    Column("user", String(64), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("description", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("created_at", Float, nullable=False),
)

# Repositories of the hub. `id` is the name of the folder, so that no name is ever a path.
hub_repos = Table(
    "hub_repos",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("kind", String(8), nullable=False),
    # A user or a group.
    Column("owner", String(64), nullable=False),
    Column("name", String(96), nullable=False),
    # kind/owner/name without regard to case: no two may differ in that only.
    Column("folded", String(200), nullable=False, unique=True),
    Column("private", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("changed_at", Float, nullable=False),
    # What the README's head says, for searching: JSON.
    Column("card", Text, nullable=False, server_default="{}"),
    Column("git_bytes", BigInteger, nullable=False, server_default="0"),
    Index("ix_hub_repos_owner", "owner"),
)

# LFS objects, stored once however many repositories have them. `stored` is the file's name; it is
# never used again, so that a late deletion cannot hit a later upload.
hub_objects = Table(
    "hub_objects",
    metadata,
    Column("oid", String(64), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("stored", String(128), nullable=False),
    Column("created_at", Float, nullable=False),
    # Since when no repository has it.
    Column("dead_at", Float),
)

hub_links = Table(
    "hub_links",
    metadata,
    Column("repo", String(32), ForeignKey("hub_repos.id"), primary_key=True),
    Column("oid", String(64), ForeignKey("hub_objects.oid"), primary_key=True),
    # When a client last relied on it; younger ones are not collected.
    Column("touched_at", Float, nullable=False),
    Index("ix_hub_links_oid", "oid"),
)

hub_locks = Table(
    "hub_locks",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("repo", String(32), ForeignKey("hub_repos.id"), nullable=False),
    Column("path", Text, nullable=False),
    Column("user", String(64), nullable=False),
    Column("locked_at", Float, nullable=False),
    UniqueConstraint("repo", "path", name="uq_hub_locks_repo_path"),
)

# Jobs that people keep to fill the submit form from; secrets are masked.
job_templates = Table(
    "job_templates",
    metadata,
    Column("id", _Sequence, primary_key=True, autoincrement=True),
    Column("user", String(64), ForeignKey("users.name"), nullable=False),
    Column("name", String(128), nullable=False),
    Column("is_shared", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("spec", Text, nullable=False),
    UniqueConstraint("user", "name", name="uq_job_templates_user_name"),
)

# What people call their jobs by, besides names.
job_tags = Table(
    "job_tags",
    metadata,
    Column("job_id", String(16), primary_key=True),
    Column("tag", String(32), primary_key=True),
    Index("ix_job_tags_tag", "tag", "job_id"),
)

# Who holds the secret may look at these jobs, and change nothing.
share_links = Table(
    "share_links",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("id", String(16), nullable=False),
    Column("user", String(64), ForeignKey("users.name"), nullable=False),
    # JSON: ids.
    Column("jobs", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float),
    Index("ix_share_links_id", "id", unique=True),
    Index("ix_share_links_user", "user"),
)

# Every call that changed something: who, when, and which.
audit = Table(
    "audit",
    metadata,
    Column("seq", _Sequence, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("user", String(64), nullable=False),
    Column("method", String(8), nullable=False),
    Column("path", String(512), nullable=False),
    Column("status", Integer, nullable=False),
    Index("ix_audit_user_seq", "user", "seq"),
)

# Whom a sign-in provider's subject is here.
oidc_identities = Table(
    "oidc_identities",
    metadata,
    Column("issuer", String(512), primary_key=True),
    Column("subject", String(255), primary_key=True),
    Column("user", String(64), ForeignKey("users.name"), nullable=False),
)
