"""`jumar ranktable`: make, merge, check and show rank tables (hccl.json)."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.cli.output import labelled, local, note, print_json, print_table, say, translated
from jumar.errors import BadInput, JumarError

if TYPE_CHECKING:
    from jumar.launch.ascend.ranktable import RankTable

FORMATS = click.Choice(["lab", "template2", "1.0", "1.2", "2.0"])
CHIPS = click.Choice(["910", "A2", "A3", "A5"])
FILE = click.Path(path_type=Path)
_output = click.option("-o", "--output", type=FILE, metavar="FILE", help="Write to this file.")


@click.group(no_args_is_help=True)
def command() -> None:
    """Make, merge, check and show rank tables (hccl.json).

    \b
    Example:
      jumar ranktable make -o hccl.json
    """


@command.command()
@click.option("--ids", metavar="LIST", help="Devices, such as 0-7 or 0,2. [default: all]")
@click.option("--chip", type=CHIPS, help="Assume this chip.")
@click.option("--format", "form", type=FORMATS, help="Format. [default: the one for the chip]")
@click.option("--server-id", metavar="ID", help="Name of this node. [default: its address]")
@click.option("--super-pod-id", metavar="ID", help="A3: the superpod. [default: from npu-smi]")
@_output
def make(
    ids: str | None,
    chip: str | None,
    form: str | None,
    server_id: str | None,
    super_pod_id: str | None,
    output: Path | None,
) -> None:
    """Make the table for this machine.

    \b
    Example:
      jumar ranktable make --ids 0-3 -o node0.json
    """
    from jumar.devices.rank_part import PartRequest, parse_ids, part_here

    request = PartRequest(
        ids=None if ids is None else parse_ids(ids),
        chip=chip,
        form=form,
        server_id=server_id,
        super_pod_id=super_pod_id,
    )
    with _in_words():
        part = part_here(request)
        _refuse_faults(part.table, part.chip)
        _put(part.table, part.table.format, output)


@command.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--by-server-id", is_flag=True, help="Order by server_id, as MindSpore expects.")
@_output
def merge(files: Sequence[Path], by_server_id: bool, output: Path | None) -> None:
    """Merge the tables of several nodes into one, with ranks in the order given.

    \b
    Example:
      jumar ranktable merge node0.json node1.json -o hccl.json
    """
    from jumar.launch.ascend.ranktable import merge as merge_tables
    from jumar.launch.ascend.ranktable import read_table

    with _in_words():
        table = merge_tables([read_table(path) for path in files], by_server_id=by_server_id)
        _refuse_faults(table, None)
        _put(table, table.format, output)


@command.command()
@click.argument("file", type=FILE)
@click.option("--chip", type=CHIPS, help="Check it against this chip's rules.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(file: Path, chip: str | None, as_json: bool) -> int:
    """Check a table.

    Exit code 1 if it has errors, which the collective library would refuse.

    \b
    Example:
      jumar ranktable check hccl.json --chip A2
    """
    from jumar.launch.ascend.ranktable import check as faults_of
    from jumar.launch.ascend.ranktable import read_table

    with _in_words():
        findings = faults_of(read_table(file), chip)
    errors = sum(finding.severity == "error" for finding in findings)
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            say(labelled(finding.severity, f"{finding.name}: {translated(finding.text)}"))
        warnings = len(findings) - errors
        say(local("{errors} errors, {warnings} warnings", errors=errors, warnings=warnings))
    return 1 if errors else 0


@command.command()
@click.argument("file", type=FILE)
@click.option("--format", "form", type=FORMATS, help="Print the table in this format.")
@click.option("--json", "as_json", is_flag=True, help="Print the ranks as a JSON list.")
@_output
def show(file: Path, form: str | None, as_json: bool, output: Path | None) -> None:
    """Show the ranks of a table, or convert it.

    \b
    Example:
      jumar ranktable show hccl.json --format lab -o lab.json
    """
    from jumar.launch.ascend.ranktable import read_table

    with _in_words():
        table = read_table(file)
        if form is not None or output is not None:
            _put(table, form or table.format, output)
            return
    ranks = [
        {
            "rank": device.rank,
            "server_id": server.server_id,
            "device_id": device.device_id,
            "device_ip": device.device_ip,
        }
        for server, device in table.devices
    ]
    if as_json:
        print_json({"format": table.format, "status": table.status, "ranks": ranks})
        return
    note(f"format {table.format or '-'}, {table.status}, {len(table.servers)} servers")
    rows = [[str("-" if value is None else value) for value in rank.values()] for rank in ranks]
    print_table(("RANK", "SERVER", "DEVICE", "ADDRESS"), rows)


def _put(table: "RankTable", form: str, output: Path | None) -> None:
    from jumar.launch.ascend.ranktable import dumps
    from jumar.wholefile import write_whole

    text = dumps(table, form)
    if output is None:
        print(text, end="")
        return
    try:
        write_whole(output, text, durable=True)
    except OSError as error:
        raise BadInput(f"cannot write {output}: {error.strerror}") from error
    note(f"wrote {output}: {table.rank_count} ranks, format {form}")


def _refuse_faults(table: "RankTable", chip: str | None) -> None:
    """Print warnings; refuse a table that the collective library would refuse."""
    from jumar.launch.ascend.ranktable import check as faults_of

    findings = faults_of(table, chip)
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise BadInput(
            "\n".join(f"{error.name}: {error.text}" for error in errors),
            hint="find addresses in /etc/hccn.conf, or with: hccn_tool -i N -ip -g"
            if errors[0].name == "missing-device-ip"
            else None,
        )
    for finding in findings:
        note(labelled("warning", f"{finding.name}: {translated(finding.text)}"))


@contextmanager
def _in_words() -> Generator[None]:
    """The launcher's errors as the command line's; the launcher cannot import ours."""
    from jumar.launch.ascend.ranktable import RankTableError

    try:
        yield
    except JumarError:
        raise
    except RankTableError as error:
        raise BadInput(error.message, hint=error.hint) from error
