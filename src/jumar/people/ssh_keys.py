"""Public keys of SSH: each stands for one user, who comes into their jobs with it."""

import base64
import binascii
import hashlib
import struct
import time
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select

from jumar.database.access import Database
from jumar.database.tables import ssh_keys, users
from jumar.errors import BadInput, Conflict, NameTaken, SshKeyNotFound
from jumar.people.tokens import Proof
from jumar.spec.people import SshKeyRecord, UserRecord

_KINDS = frozenset(
    {
        *("ssh-ed25519", "ssh-rsa"),
        *(f"ecdsa-sha2-nistp{bits}" for bits in (256, 384, 521)),
        *("sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"),
    }
)
_LEAST_RSA_BITS = 2048
_LONGEST_KEY = 16_384
_LONGEST_LABEL = 128
_MOST_PER_USER = 100


class SshKeys:
    """Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self, user: str, line: str, label: str = "", proof: Proof | None = None
    ) -> SshKeyRecord:
        """Let `user` in with a public key, given as the line of its file; adding it twice is once."""
        kind, blob, comment = parse(line)
        name = (label or comment).strip()[:_LONGEST_LABEL]
        record = SshKeyRecord(
            fingerprint=fingerprint_of(blob),
            user=user,
            label=name if name.isprintable() and name else kind,
            key=f"{kind} {base64.b64encode(blob).decode()}",
            created_at=time.time(),
        )

        def change(connection: Connection) -> SshKeyRecord:
            if proof is not None:
                proof(connection)
            known = connection.execute(_named(record.fingerprint)).first()
            if known is not None:
                if known.user != user:
                    raise NameTaken("somebody else uses this key", hint="make one of your own")
                return _record(known)
            count = select(func.count()).where(ssh_keys.c.user == user)
            if connection.execute(count).scalar_one() >= _MOST_PER_USER:
                raise Conflict(f"{user} already has {_MOST_PER_USER} keys", hint="remove some")
            connection.execute(insert(ssh_keys).values(**asdict(record)))
            return record

        return self._database.write(change)

    def of(self, user: str) -> tuple[SshKeyRecord, ...]:
        """The keys of `user`, newest first."""
        query = (
            select(ssh_keys)
            .where(ssh_keys.c.user == user)
            .order_by(ssh_keys.c.created_at.desc(), ssh_keys.c.fingerprint)
        )
        with self._database.read() as connection:
            return tuple(_record(row) for row in connection.execute(query))

    def remove(self, fingerprint: str, *, user: str) -> None:
        """Nobody comes in with it any more."""

        def change(connection: Connection) -> None:
            which = (ssh_keys.c.fingerprint == fingerprint, ssh_keys.c.user == user)
            if not connection.execute(delete(ssh_keys).where(*which)).rowcount:
                raise SshKeyNotFound(
                    f"no key {fingerprint[:64]!r}", hint="list them with: jumar ssh-key list"
                )

        self._database.write(change)

    def user_of(self, fingerprint: str) -> UserRecord | None:
        """Who comes in with a key."""
        query = (
            select(users)
            .join(ssh_keys, ssh_keys.c.user == users.c.name)
            .where(ssh_keys.c.fingerprint == fingerprint)
        )
        with self._database.read() as connection:
            row = connection.execute(query).first()
        if row is None:
            return None
        return UserRecord(name=row.name, role=row.role, created_at=row.created_at)


def parse(line: str) -> tuple[str, bytes, str]:
    """Kind, content and comment of a public key, as it stands in a file; BadInput."""
    words = line.strip().split(None, 2)
    if "PRIVATE KEY" in line:
        raise BadInput(
            "this is a private key; keep it to yourself", hint="give the file that ends in .pub"
        )
    if len(words) < 2 or "\n" in line.strip() or len(line) > _LONGEST_KEY or words[0] not in _KINDS:
        raise BadInput(
            "not a public key of SSH: one line, such as ssh-ed25519 AAAA… comment",
            hint="make one with: ssh-keygen -t ed25519, and give the file that ends in .pub",
        )
    try:
        blob = base64.b64decode(words[1], validate=True)
        parts = list(_strings(blob))
    except (binascii.Error, struct.error, ValueError) as error:
        raise BadInput("the public key is damaged", hint="copy its line once more") from error
    if len(parts) < 2 or parts[0] != words[0].encode():
        raise BadInput("the public key is damaged", hint="copy its line once more")
    if words[0] == "ssh-rsa" and len(parts[-1].lstrip(b"\0")) * 8 < _LEAST_RSA_BITS:
        raise BadInput(
            f"an RSA key must have at least {_LEAST_RSA_BITS} bits",
            hint="make one with: ssh-keygen -t ed25519",
        )
    return words[0], blob, words[2] if words[2:] else ""


def fingerprint_of(blob: bytes) -> str:
    """As ssh-keygen -l prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _strings(blob: bytes) -> "list[bytes]":
    found: list[bytes] = []
    while blob:
        (size,) = struct.unpack_from("!I", blob)
        if len(blob) < 4 + size:
            raise ValueError("cut off")
        found.append(blob[4 : 4 + size])
        blob = blob[4 + size :]
    return found


def _named(fingerprint: str) -> Any:
    return select(ssh_keys).where(ssh_keys.c.fingerprint == fingerprint)


def _record(row: Row[Any]) -> SshKeyRecord:
    return SshKeyRecord(**row._mapping)  # pyright: ignore[reportPrivateUsage] - its public name
