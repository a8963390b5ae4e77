"""What the settings mean for the parts of a server."""

import importlib.metadata
import socket
import time
from functools import partial
from typing import TYPE_CHECKING

from jumar.database.access import Database
from jumar.errors import HomeUnusable
from jumar.hub.hub import Hub
from jumar.hub.repositories import Limits as HubLimits
from jumar.hub.upstream import Upstream
from jumar.jobs.engines import Engines
from jumar.jobs.submitting import Limits, TimeLimits
from jumar.jobs.sweep import SweepPlan
from jumar.people.accounts import Accounts
from jumar.people.oidc import Oidc, OidcOptions
from jumar.people.unix import UnixPeople
from jumar.root.program import Refused, read_site
from jumar.root.program import Site as RootSite
from jumar.server.process.engines import HubVariables
from jumar.server.process.listen import Listener
from jumar.settings import Settings, second_of_day
from jumar.spec.records import ServerInfo
from jumar.tls import client_context, fingerprint

if TYPE_CHECKING:
    from jumar.server.ssh.port import SshDoor

VERSION = importlib.metadata.version("jumar")


def read_root_site(settings: Settings) -> RootSite | None:
    """What root says of the site that this server is for; None for a person's own server."""
    if not settings.site:
        return None
    try:
        return read_site(settings.site)
    except (Refused, OSError) as error:
        raise HomeUnusable(
            f"cannot use the site: {error}", hint="see: jumar site status"
        ) from error


def unix_people(settings: Settings, database: Database, shared: RootSite) -> UnixPeople:
    """People by their accounts on this machine."""
    return UnixPeople(
        database,
        # Without fences a call from inside a job cannot be told from one outside.
        shared.admin_group if shared.fences else "",
        lambda: _mapped(settings),
        fences=shared.fences,
    )


def _mapped(settings: Settings) -> dict[str, str]:
    """Whom web accounts are on this machine, as root's file says now."""
    found = read_root_site(settings)
    return {} if found is None else found.map


def job_limits(settings: Settings) -> Limits:
    """What jobs and users may take."""
    return Limits(
        user=settings.user_limit or None,
        running=settings.running_limit or None,
        queue=settings.queue_limit or None,
        disk_bytes=settings.disk_quota_gb * 10**9,
        time=TimeLimits(settings.default_time_limit_s, settings.longest_time_limit_s),
    )


def sweep_plan(settings: Settings) -> SweepPlan | None:
    """When cards are swept; None: never."""
    at_s = second_of_day(settings.sweep, "sweep")
    if at_s is None:
        return None
    until_s = second_of_day(settings.sweep_until, "sweep_until")
    return SweepPlan(at_s, float(settings.sweep_warning_s), until_s)


def hub_limits(settings: Settings) -> HubLimits:
    """What the hub takes."""
    return HubLimits(
        settings.hub_plain_kb << 10,
        quota_bytes=settings.hub_quota_gb * 10**9,
        disk_bytes=settings.disk_quota_gb * 10**9,
    )


def upstream_of(settings: Settings) -> Upstream | None:
    """Where the hub asks for what it does not have."""
    if not settings.hub_upstream:
        return None
    folder = settings.home / "hub" / "upstream"
    return Upstream(settings.hub_upstream, settings.hub_upstream_token, folder)


def hub_of_jobs(settings: Settings, listener: Listener, hub: Hub) -> HubVariables:
    """What jobs are told of the hub: nothing where they would not trust its certificate."""
    if settings.public_url:
        return partial(hub.job_variables, settings.public_url.rstrip("/"))
    if listener.certificate is not None:
        return lambda job: {}
    return partial(hub.job_variables, listener.url.rstrip("/"))


def oidc_of(settings: Settings, accounts: Accounts, database: Database) -> Oidc | None:
    """Sign-in at another server, where there is one."""
    if not settings.oidc_issuer:
        return None
    options = OidcOptions(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        label=settings.oidc_label,
        claim=settings.oidc_claim,
        role=settings.oidc_role,
    )
    return Oidc(options, database, accounts.tokens, client_context(settings.trust))


def server_info(
    settings: Settings, listener: Listener, ssh: "SshDoor | None", engines: Engines
) -> ServerInfo:
    """Which server this is, as far as that is known before it begins."""
    return ServerInfo(
        name=socket.gethostname(),
        version=VERSION,
        home=str(settings.home),
        url=listener.url,
        started_at=time.time(),
        engine=engines.default.name,
        engines=engines.names,
        ssh_port=0 if ssh is None else settings.ssh_port,
        ssh_fingerprint=None if ssh is None else ssh.fingerprint,
        fingerprint=fingerprint(listener.trust) if listener.trust else None,
    )
