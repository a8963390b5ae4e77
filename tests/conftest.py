"""Parts that tests of several rooms need: a real PostgreSQL, a database of each kind, a server."""

import gc
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.checkout import checkout as checkout
from tests.slurm import Cluster, running_cluster

# On a busy machine one example may take as long as a hundred do elsewhere.
settings.register_profile(
    "busy", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy")


def pytest_configure() -> None:
    """Let the programs under test be interrupted, though the run itself is in the background, and speak
    English, whatever the developer's own terminal speaks."""
    os.environ["LC_ALL"] = "C.UTF-8"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection() -> None:
    """Let ten thousand tests be found without looking at all of them again and again for garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    # They stay to the end: each later search for garbage would go over them, half a second each time.
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def slurm_cluster() -> Generator[Cluster]:
    """Four nodes with eight NPUs each, by name only."""
    with running_cluster() as cluster:
        yield cluster


def _postgres_programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


@pytest.fixture(scope="session")
def postgres_server() -> Generator[str]:
    """The address of a PostgreSQL server of our own, on a unix socket, without a database name."""
    programs = _postgres_programs()
    if programs is None:
        if os.environ.get("CI"):
            pytest.fail("PostgreSQL is not installed; make test installs it when root")
        pytest.skip("PostgreSQL is not installed")
    # The server refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    as_user = (
        ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        if os.geteuid() == 0
        else []
    )
    folder = Path(tempfile.mkdtemp(prefix="jumar-pg-"))
    shutil.chown(folder, user)
    data = folder / "data"
    run = {"check": True, "stdout": subprocess.DEVNULL, "timeout": 300}
    subprocess.run(
        [*as_user, programs / "initdb", "-D", data, "-U", "jumar", "-A", "trust", "-N"],
        **run,  # pyright: ignore[reportArgumentType, reportCallIssue]
    )
    control = [*as_user, programs / "pg_ctl", "-D", data, "-w", "-t", "240"]
    options = f"-k {folder} -c listen_addresses='' -c fsync=on -c max_connections=200"
    subprocess.run(
        [*control, "-l", folder / "log", "-o", options, "start"],
        **run,  # pyright: ignore[reportArgumentType, reportCallIssue]
    )
    try:
        yield f"postgresql://jumar@/{{name}}?host={folder}"
    finally:
        subprocess.run(
            [*control, "-m", "immediate", "stop"],
            **run,  # pyright: ignore[reportArgumentType, reportCallIssue]
        )
        shutil.rmtree(folder)


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """An empty database on that server."""
    import psycopg
    from psycopg import sql

    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(postgres_server.format(name="postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return postgres_server.format(name=name)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind that the platform can live on."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jumar.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture(scope="session")
def jumar_program() -> str:
    """The command line as it is installed."""
    return str(Path(sys.executable).parent / "jumar")


@pytest.fixture(scope="session")
def live_home(tmp_path_factory: pytest.TempPathFactory, jumar_program: str) -> Generator[Path]:
    """The home of a real server that runs as long as the tests of this process."""
    home = tmp_path_factory.mktemp("live") / "home"
    environment = {**os.environ, "JUMAR_HOME": str(home), "JUMAR_CPU_SLOTS": "4"}
    for name in ("JUMAR_SERVER", "JUMAR_TOKEN", "JUMAR_DATABASE_URL"):
        environment.pop(name, None)
    subprocess.run([jumar_program, "up", "--detach"], env=environment, check=True, timeout=240)
    try:
        yield home
    finally:
        subprocess.run([jumar_program, "down"], env=environment, check=True, timeout=240)
