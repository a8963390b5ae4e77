"""Signing in at an OpenID Connect provider: the authorization code flow with PKCE.

The ID token comes from the provider itself over TLS, which the standard takes in place of its signature (OpenID
Connect Core, 3.1.3.7); so a provider without TLS is taken on this machine only."""

import base64
import hashlib
import http.client
import json
import secrets
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

from sqlalchemy import Connection, insert, select

from jumar.database.access import Database
from jumar.database.tables import oidc_identities, users
from jumar.errors import BadInput, NameTaken, NotSignedIn, Unavailable
from jumar.people.tokens import SESSION_S, Tokens
from jumar.spec.names import USER_NAME_RULE, is_user_name

_LIMIT_S = 10.0
_MOST_BYTES = 1 << 20
_KNOWN_S = 3600.0
_SKEW_S = 60.0
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcOptions:
    """Which provider, and who we are to it."""

    issuer: str
    client_id: str
    client_secret: str
    label: str = "OpenID Connect"
    claim: str = "preferred_username"
    role: str = "pending"
    """Of people who come for the first time."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What a browser has to bring back from the provider."""

    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True, slots=True)
class _Provider:
    authorization: str
    token: str
    userinfo: str | None


def new_visit() -> Visit:
    """Secrets for one way to the provider and back."""
    return Visit(*(secrets.token_urlsafe(32) for _ in range(3)))


class Oidc:
    """One provider; thread-safe."""

    def __init__(
        self, options: OidcOptions, database: Database, tokens: Tokens, context: ssl.SSLContext
    ) -> None:
        """`context`: whom it is trusted by."""
        _check_address(options.issuer, "oidc_issuer")
        if not options.client_id:
            raise BadInput("oidc_client_id is missing", hint="the provider gave you one")
        if options.role not in ("pending", "member"):
            raise BadInput(f"oidc_role: {options.role!r} is not pending or member")
        self.options = options
        self._database = database
        self._tokens = tokens
        self._context = context
        self._lock = threading.Lock()
        self._known: tuple[float, _Provider] | None = None

    def address(self, visit: Visit, redirect: str) -> str:
        """Where to send the browser; asks the provider."""
        challenge = hashlib.sha256(visit.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.options.client_id,
            "redirect_uri": redirect,
            "scope": "openid profile email",
            "state": visit.state,
            "nonce": visit.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        place = self._provider().authorization
        return f"{place}{'&' if '?' in place else '?'}{urlencode(query)}"

    def sign_in(self, visit: Visit, code: str, redirect: str) -> str:
        """A token for whom the provider names; NotSignedIn, NameTaken."""
        provider = self._provider()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "code_verifier": visit.verifier,
            "client_id": self.options.client_id,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if self.options.client_secret:
            # Both are form-encoded first: RFC 6749, 2.3.1.
            pair = f"{quote(self.options.client_id)}:{quote(self.options.client_secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        answer = self._ask("POST", provider.token, urlencode(form).encode(), headers)
        claims = self._claims(answer, visit.nonce)
        if not isinstance(claims.get(self.options.claim), str) and provider.userinfo:
            bearer = {"Authorization": f"Bearer {answer.get('access_token')}"}
            told = self._ask("GET", provider.userinfo, None, bearer)
            if told.get("sub") == claims["sub"]:
                claims = {**told, **claims}
        user = self._user_of(claims)
        made = self._tokens.new(user, "browser", kind="session", lasts_s=SESSION_S)
        return made.token

    def _claims(self, answer: dict[str, Any], nonce: str) -> dict[str, Any]:
        """What the ID token says, if it is one for us and for this visit."""
        try:
            body = str(answer["id_token"]).split(".")[1]
            claims: Any = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            audience = claims["aud"]
            aims = cast("list[str]", audience if isinstance(audience, list) else [audience])
            is_ours = (
                claims["iss"] == self.options.issuer
                and self.options.client_id in aims
                and claims.get("azp", self.options.client_id) == self.options.client_id
                and float(claims["exp"]) > time.time() - _SKEW_S
                and secrets.compare_digest(str(claims["nonce"]), nonce)
                and 0 < len(str(claims["sub"])) <= 255
            )
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise NotSignedIn("the provider sent no ID token that can be read") from error
        if not is_ours:
            raise NotSignedIn("the provider's ID token is not for this server, or has expired")
        return cast("dict[str, Any]", claims)

    def _user_of(self, claims: dict[str, Any]) -> str:
        """Whom the provider's subject is here; a new user at the first visit. A name that somebody here
        already has is never taken over."""
        subject = str(claims["sub"])
        wanted = str(claims.get(self.options.claim) or "")
        which = (oidc_identities.c.issuer == self.options.issuer) & (
            oidc_identities.c.subject == subject
        )

        def change(connection: Connection) -> str:
            known = connection.execute(select(oidc_identities.c.user).where(which)).scalar()
            if known is not None:
                return known
            if not is_user_name(wanted):
                raise NotSignedIn(
                    f"the provider's {self.options.claim} {wanted[:64]!r} cannot be a user name",
                    hint=USER_NAME_RULE,
                )
            if connection.execute(select(users.c.name).where(users.c.name == wanted)).first():
                raise NameTaken(
                    f"somebody here already has the user name {wanted!r}",
                    hint="sign in with its password, or ask an administrator",
                )
            now = time.time()
            row = {"name": wanted, "role": self.options.role, "created_at": now}
            connection.execute(insert(users).values(**row))
            identity = {"issuer": self.options.issuer, "subject": subject, "user": wanted}
            connection.execute(insert(oidc_identities).values(**identity))
            return wanted

        return self._database.write(change)

    def _provider(self) -> _Provider:
        with self._lock:
            if self._known is not None and self._known[0] > time.monotonic() - _KNOWN_S:
                return self._known[1]
        base = self.options.issuer.rstrip("/")
        told = self._ask("GET", f"{base}/.well-known/openid-configuration", None, {})
        if told.get("issuer") != self.options.issuer:
            raise Unavailable(f"{base} says that it is {str(told.get('issuer'))[:200]!r}")
        userinfo = told.get("userinfo_endpoint")
        found = _Provider(
            authorization=_check_address(str(told.get("authorization_endpoint")), base),
            token=_check_address(str(told.get("token_endpoint")), base),
            userinfo=None if userinfo is None else _check_address(str(userinfo), base),
        )
        with self._lock:
            self._known = (time.monotonic(), found)
        return found

    def _ask(
        self, method: str, address: str, body: bytes | None, headers: dict[str, str]
    ) -> dict[str, Any]:
        """The JSON object that the provider answers; redirects are not followed."""
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=_LIMIT_S, context=self._context)
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=_LIMIT_S)
        )
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        try:
            connection.request(method, path, body, {"Accept": "application/json", **headers})
            response = connection.getresponse()
            data = response.read(_MOST_BYTES)
            found: Any = json.loads(data) if response.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unavailable(f"the sign-in provider does not answer: {error}") from error
        finally:
            connection.close()
        if not isinstance(found, dict):
            raise NotSignedIn(f"the sign-in provider answered {response.status}")
        return cast("dict[str, Any]", found)


def _check_address(address: str, place: str) -> str:
    try:
        parts = urlsplit(address)
        is_safe = parts.scheme == "https" or parts.hostname in _LOOPBACK
    except ValueError:
        is_safe = False
    if not is_safe or not urlsplit(address).hostname:
        raise BadInput(f"{place}: {address[:200]!r} is not an https:// address")
    return address
