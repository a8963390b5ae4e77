"""`jumar slurm`: a Slurm cluster out of bare hosts."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.cli.output import local, note, print_json, say
from jumar.errors import BadInput

if TYPE_CHECKING:
    from jumar.site.cluster.hosts import Host


@click.group()
def command() -> None:
    """Make a Slurm cluster out of bare hosts.

    \b
    Example:
      jumar slurm setup --hosts a,b,c --output cluster
    """


@command.command()
@click.option("--hosts", metavar="A,B,…", help="The hosts, as ssh knows them; the first controls.")
@click.option(
    "--local", type=click.IntRange(1, 64), metavar="N", help="N nodes on this machine, for a trial."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("cluster"),
    show_default=True,
    metavar="DIR",
    help="A new folder for the files.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the files and hosts as JSON.")
def setup(hosts: str | None, local: int | None, output: Path, as_json: bool) -> None:
    """Write the files of a cluster, and a script that installs it.

    Asks each host over SSH for its cores, memory and cards and writes slurm.conf, gres.conf,
    cgroup.conf and the key of munge. Nothing on the hosts is changed before you run install.sh,
    which checks the cluster in the end. Debian, Ubuntu and openEuler.

    \b
    Examples:
      jumar slurm setup --hosts a,b,c && cluster/install.sh
      sudo jumar slurm setup --local 4 --output /opt/try && sudo /opt/try/start.sh
    """
    from jumar.site.cluster.hosts import named, survey
    from jumar.site.cluster.making import make_for_hosts, make_local

    if (hosts is None) == (local is None):
        raise BadInput("give either --hosts or --local", hint="jumar slurm setup --help")
    if local is not None:
        written, found, last = make_local(output, local), [], "start.sh"
    else:
        destinations = named(hosts or "")
        found = survey(destinations)
        written, last = make_for_hosts(output, destinations, found), "install.sh"
    if as_json:
        print_json({"files": [str(path) for path in written], "hosts": found})
        return
    for host in found:
        _tell(host)
    for path in written:
        say(str(path))
    note(f"next: {output / last}")


def _tell(host: "Host") -> None:
    size = {"name": host.name, "cores": host.cores, "memory": host.memory_mb}
    cards = {"npus": len(host.npus), "gpus": len(host.gpus)}
    say(local("{name}: {cores} cores, {memory} MB, {npus} NPUs, {gpus} GPUs", **size, **cards))
