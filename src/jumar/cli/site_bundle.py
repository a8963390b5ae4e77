"""`jumar site bundle`: everything that a host without a network needs."""

import os
import platform
import sys
from pathlib import Path

import click

from jumar.cli.output import note, print_json
from jumar.site.bundle import ARCHITECTURES, make_bundle, wanted_bundle


@click.command()
@click.option(
    "--arch",
    type=click.Choice(list(ARCHITECTURES)),
    default=platform.machine(),
    help="Processor of the host.  [default: this machine's]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("jumar.tar"),
    help="File to write.  [default: jumar.tar]",
)
@click.option(
    "--python-version",
    "version",
    metavar="3.N",
    default=f"{sys.version_info.major}.{sys.version_info.minor}",
    help="Version of the host's Python.  [default: as here]",
)
@click.option(
    "--python",
    "archive",
    type=click.Path(path_type=Path),
    metavar="ARCHIVE",
    help="Include this relocatable Python, for hosts whose own is too old.",
)
@click.option(
    "--with",
    "extra",
    multiple=True,
    metavar="REQUIREMENT",
    help="Include and install another package, such as torch or 'jumar[door]'.",
)
@click.option("--json", "as_json", is_flag=True, help="Print path and size.")
def command(
    arch: str,
    output: Path,
    version: str,
    archive: Path | None,
    extra: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write a file that installs jumar on a host without a network.

    It holds the wheels of this jumar and of the packages it runs with here, the launcher as one file, and
    an install script. On the host: tar -xf jumar.tar, then sh jumar-VERSION-ARCH/install.sh.

    \b
    Examples:
      jumar site bundle --arch aarch64 -o jumar.tar
      jumar site bundle --arch aarch64 --python cpython-3.11-aarch64.tar.gz --with torch
    """
    path = output.expanduser().absolute()
    make_bundle(wanted_bundle(arch, version, archive, extra), path, os.environ, note)
    size = path.stat().st_size
    if as_json:
        print_json({"path": str(path), "bytes": size})
    else:
        note(
            f"wrote {path} ({size / 1e6:.0f} MB); on the host: tar -xf {path.name}, "
            "then sh jumar-*/install.sh"
        )
