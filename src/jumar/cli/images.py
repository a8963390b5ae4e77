"""`jumar images`: the images that jobs may name."""

import click

from jumar.cli.connect import connect
from jumar.cli.output import note, print_json, print_table

HEADER = ("IMAGE", "SIZE", "OF")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(as_json: bool) -> None:
    """List the images that jobs can run in.

    They are those that podman and docker have on the server's machine; bring more there with
    `podman load -i FILE` or `podman pull NAME`, or name the file itself as a job's image.

    \b
    Example:
      jumar images
      jumar run --image tf:1.15-rc1 --device npu:2 -- python3 train.py
    """
    with connect().client as client:
        found = client.images()
    if as_json:
        print_json(found)
        return
    print_table(HEADER, [(image.name, image.size, image.program) for image in found])
    if not found:
        note("the server's machine has no images for podman or docker")
