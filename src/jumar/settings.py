"""One frozen `Settings`, read once at the edge and passed down.

Each field comes from the environment variable `JUMAR_<FIELD>`, else from `config.toml` in the
platform's home, else from its default."""

import json
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from jumar.errors import BadInput, HomeUnusable


def _site_root() -> Path:
    program = Path(sys.prefix).parent
    root = program.parent.parent
    is_of_site = program.parts[-2:] == ("opt", "jumar") and (root / "etc/jumar/site.toml").exists()
    return root if is_of_site else Path("/")


SITE_ROOT = _site_root()
"""The folder of the site that this program was installed for, else of the machine's."""
SITE_FILE = str(SITE_ROOT / "etc/jumar/site.toml")
SITE_SOCKET = str(SITE_ROOT / "run/jumar/jumar.sock")
_LAST_PORT = 65535
_TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII)
_LONGEST_HALF_LIFE_DAYS = 3650
_MOUNTS_HINT = 'write mounts = { "/data" = "/srv/nfs/data" }, or JUMAR_MOUNTS=/data=/srv/nfs/data'
_NO_TARGETS = frozenset({"proc", "sys", "dev"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the platform is installed, where it listens, what it offers."""

    home: Path
    server: str = ""
    """URL of the server to use; empty means the home's own."""
    token: str = ""
    database_url: str = ""
    """Empty means SQLite in `home`."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 means 7420, or any free port when that one is taken."""
    tls_cert: str = ""
    """Certificate of the server and its S3 door, in PEM form; `self-signed` has the server make one.
    Empty means no TLS."""
    tls_key: str = ""
    """Key of that certificate, without a password."""
    trust: str = ""
    """File of certificates in PEM form that servers are trusted by, besides what this machine trusts."""
    site: str = ""
    """Where root's file of the site is that this server is for; empty for a person's own server."""
    site_socket: str = SITE_SOCKET
    """Where the server of this machine's site is found by those who name no other; empty for those who
    name a home, and so a server of their own."""
    engine: str = "local"
    """Where the server runs jobs: on its own machine (`local`), on a cluster (`slurm`, `kubernetes`) or on
    ModelArts (`modelarts`); several with commas, the first is for jobs that do not say."""
    slurm_ssh: str = ""
    """A login node, as ssh knows it, over which jobs go to Slurm with no server; empty means that this
    machine is one."""
    cpu_slots: int = 0
    """How many `cpu` devices all jobs together may hold; 0 means one per core, at least 4."""
    sim_cards: int = 8
    public_url: str = ""
    """Where people reach the pages, where that is not where the server listens: behind a proxy."""
    oidc_issuer: str = ""
    """The OpenID Connect provider where people may sign in, such as https://login.example.org; empty
    means none."""
    oidc_client_id: str = ""
    """What the provider calls this server."""
    oidc_client_secret: str = ""
    """What this server proves itself to the provider with."""
    oidc_label: str = "OpenID Connect"
    """What the sign-in page calls the provider."""
    oidc_claim: str = "preferred_username"
    """What the provider says that becomes the user name."""
    oidc_role: str = "pending"
    """Of people who come from there for the first time: `pending` or `member`."""
    endpoint_ports: str = "7500-7599"
    """Ports for endpoints of jobs, one each; empty means any that is free."""
    endpoints_url: str = ""
    """`https://*.jobs.example.org`: each endpoint has a name there, and all come to the first of the
    ports. Empty means a port each."""
    endpoint_idle_s: int = 3600
    """After how long an endpoint that nobody uses ends."""
    ssh_port: int = 0
    """Port of `ssh -p PORT JOB@HOST`; 0 means none."""
    s3_port: int = 0
    """Port of the S3 door; 0 means closed, or the last port once the store is behind it."""
    s3_host: str = ""
    """Address the S3 door listens on; empty means the last one, initially this machine only."""
    user_limit: int = 0
    """How many devices a user's running jobs together may hold; 0 means no limit."""
    running_limit: int = 0
    """How many jobs of a user may run at the same time; 0 means no limit."""
    queue_limit: int = 10_000
    """How many jobs of a user may wait; 0 means no limit."""
    disk_quota_gb: int = 0
    """How much the job folders and repositories of one user may take; 0 means no limit."""
    keep_days: int = 0
    """After how many days the server removes ended jobs; 0 means never."""
    default_time_limit_s: int = 0
    """The time limit of jobs that name none; 0 means none."""
    longest_time_limit_s: int = 0
    """The longest time limit that a job may have; 0 means no limit."""
    sweep: str = ""
    """When processes that use cards and belong to no job are ended each day, such as 23:00, local time;
    empty means never."""
    sweep_warning_s: int = 1800
    """How long before that their owners are warned."""
    sweep_until: str = ""
    """Until when the cards stay free after a sweep, such as 06:00: jobs are asked to save and go on
    then; empty means that jobs run on."""
    half_life_days: int = 7
    """After this many days, past use counts half in the fair-share order."""
    send_every_s: int = 180
    """How often results of running jobs are sent to their store."""
    send_patience_s: int = 120
    """How long to wait for an unreachable store, before and after a job."""
    input_cache_gb: int = 100
    """How much input data from stores is cached for later jobs."""
    hub_plain_kb: int = 10_240
    """The largest file, in KiB, that a push to a repository may have outside of LFS."""
    hub_quota_gb: int = 0
    """How much the repositories of one owner may take; 0 means no limit."""
    hub_upstream: str = ""
    """Another hub, such as https://hub.example.org, that the Hugging Face clients get what does not exist
    here from, through a cache; empty means none."""
    hub_upstream_token: str = ""
    """What this server reads there with."""
    job_network: str = "open"
    """`closed`: jobs on this machine reach nobody over the network; ranks of one node reach each other."""
    mounts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Paths that jobs see, and the folders of this machine that they mean."""
    kubernetes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What `engine/kubernetes/options.py` reads."""

    @property
    def engines(self) -> tuple[str, ...]:
        """Each once, in order."""
        return tuple(dict.fromkeys(filter(None, (name.strip() for name in self.engine.split(",")))))

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.home / 'jumar.db'}"


def home_of(environ: Mapping[str, str] | None = None) -> Path:
    """The platform's home, for what needs no setting: a mistake in one must not be in its way."""
    env = os.environ if environ is None else environ
    return Path(env.get("JUMAR_HOME") or Path.home() / ".jumar").expanduser().absolute()


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of this process."""
    env = os.environ if environ is None else environ
    home = home_of(env)
    values: dict[str, Any] = {"home": home}
    if env.get("JUMAR_HOME"):
        values["site_socket"] = ""
    config = home / "config.toml"
    from_file, text = _read_config(config)
    for one in fields(Settings):
        if one.name == "home":
            continue
        variable = f"JUMAR_{one.name.upper()}"
        if env.get(variable):
            values[one.name] = _convert(env[variable], one, variable)
        elif one.name in from_file:
            place = f"{_line_of(one.name, text, config)}: {one.name}"
            values[one.name] = _convert(from_file.pop(one.name), one, place)
    return Settings(**values)


def _line_of(name: str, text: str, path: Path) -> str:
    """Where a file sets something, as `config.toml:3`."""
    setting = re.compile(rf"""\s*\[?\s*["']?{re.escape(name)}["']?\s*[].=]""")
    lines = enumerate(text.splitlines(), 1)
    return next((f"{path}:{number}" for number, line in lines if setting.match(line)), str(path))


def _read_config(path: Path) -> tuple[dict[str, Any], str]:
    """What the file sets, and its text."""
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}, ""
    except (OSError, UnicodeDecodeError) as error:
        raise HomeUnusable(f"cannot read {path}: {error}") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not TOML: {error}") from error
    known = {field.name for field in fields(Settings)} - {"home"}
    for name in values:
        if name not in known:
            # Late: only for a name that does not exist.
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1)
            raise BadInput(
                f"{_line_of(name, text, path)}: unknown setting {name!r}",
                hint=f"did you mean: {near[0]}" if near else f"known: {', '.join(sorted(known))}",
            )
    return values, text


def _convert(value: object, field: "Field[Any]", place: str) -> object:
    if field.name in _READERS:
        return _READERS[field.name](value, place)
    if not isinstance(field.default, int):
        if field.name in ("sweep", "sweep_until"):
            second_of_day(str(value), place)
        if field.name == "job_network" and value not in ("open", "closed"):
            raise BadInput(f"{place}: {value!r} is neither open nor closed")
        return str(value)
    try:
        number = int(str(value))
    except ValueError:
        raise BadInput(f"{place}: {value!r} is not a whole number") from None
    if number < 0:
        raise BadInput(f"{place}: must not be negative")
    if field.name == "half_life_days" and not 1 <= number <= _LONGEST_HALF_LIFE_DAYS:
        raise BadInput(f"{place}: must be 1 to {_LONGEST_HALF_LIFE_DAYS} days")
    if field.name.endswith("port") and number > _LAST_PORT:
        raise BadInput(f"{place}: {number} is not a port; ports go up to {_LAST_PORT}")
    return number


def second_of_day(text: str, place: str) -> int | None:
    """`23:00` or `23:00:30` in seconds since midnight; None for an empty text."""
    found = _TIME_OF_DAY.fullmatch(text)
    if not text:
        return None
    if found is None:
        raise BadInput(f"{place}: {text!r} is not a time of day", hint="for example 23:00")
    hours, minutes, seconds = (int(number or 0) for number in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def _table(value: object, place: str) -> dict[str, Any]:
    """As TOML has it, or from JSON."""
    try:
        found: Any = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadInput(f"{place}: must be a table", hint="write [kubernetes] in config.toml")
    return cast("dict[str, Any]", found)


def _mounts(value: object, place: str) -> dict[str, str]:
    """From a table, or from words such as `/data=/srv/nfs/data,/dlwsdata=/srv/nfs`."""
    if isinstance(value, str):
        pairs = [word.partition("=")[::2] for word in value.split(",") if word.strip()]
    elif isinstance(value, dict):
        pairs = [(str(target), str(source)) for target, source in cast("Any", value).items()]
    else:
        raise BadInput(f"{place}: must be a table of paths", hint=_MOUNTS_HINT)
    table: dict[str, str] = {}
    for words in pairs:
        target, source = (os.path.normpath(word.strip()) for word in words)
        if not target.startswith("/") or not source.startswith("/"):
            raise BadInput(
                f"{place}: {'='.join(words)!r} is not a pair of paths", hint=_MOUNTS_HINT
            )
        if target == "/" or target.split("/")[1] in _NO_TARGETS:
            raise BadInput(f"{place}: nothing can be mounted over {target}")
        table[target] = source
    return table


def _names(value: object, _place: str) -> str:
    """With commas between them, or as a list."""
    return (
        ",".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value)
    )


_READERS = {"kubernetes": _table, "mounts": _mounts, "engine": _names}
