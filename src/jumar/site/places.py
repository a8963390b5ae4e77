"""Where a site's things are; below another folder than / for a trial."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of one site."""

    root: Path = Path("/")

    @property
    def programs(self) -> Path:
        """One folder per version, and `current`."""
        return self.root / "opt/jumar"

    @property
    def current(self) -> Path:
        """A link to the version in use."""
        return self.programs / "current"

    @property
    def etc(self) -> Path:
        """Root's own files."""
        return self.root / "etc/jumar"

    @property
    def server_settings(self) -> Path:
        """Variables of the server."""
        return self.etc / "server.env"

    @property
    def toml(self) -> Path:
        """Who may run, and how."""
        return self.etc / "site.toml"

    @property
    def state(self) -> Path:
        """What jobs and the server write."""
        return self.root / "var/lib/jumar"

    @property
    def home(self) -> Path:
        """The server's home."""
        return self.state / "server"

    @property
    def made(self) -> Path:
        """Which accounts and groups were made for the site: no others are removed with it."""
        return self.state / "made"

    @property
    def run(self) -> Path:
        """The folder of the socket for people."""
        return self.root / "run/jumar"

    @property
    def job_run(self) -> Path:
        """The folder of the socket for jobs."""
        return self.run.with_name(f"{self.run.name}-job")

    @property
    def root_run(self) -> Path:
        """The folder of the socket of root's program."""
        return self.root / "run/jumar-root"

    @property
    def units(self) -> Path:
        """systemd's."""
        return self.root / "etc/systemd/system"

    @property
    def command(self) -> Path:
        """What everybody calls."""
        return self.root / "usr/local/bin/jumar"

    @property
    def logs(self) -> Path:
        """Of both programs, where no systemd keeps them."""
        return self.root / "var/log"
