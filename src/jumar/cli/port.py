"""`jumar port`: CUDA training code to Ascend.

stdout is data (the verdict, a diff, JSON), progress goes to stderr. Exit codes: 0 ported, 1 ported
with places that need work under `--check`, 2 bad input."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from jumar.errors import BadInput, JumarError
from jumar.port import run
from jumar.port.options import Mode, Options, chip, torch_version
from jumar.port.report import as_patch


def port(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="Folder of the training code.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="OUT", help="New folder for the port.")] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Change SRC itself.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print a patch; write nothing.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 where work is left.")] = False,
    npu_only: Annotated[bool, typer.Option("--npu-only/--portable", help="Plain NPU code, or code for NPU, GPU and CPU.")] = False,
    torch: Annotated[str, typer.Option(help="torch version the port will run on.")] = "2.7",
    chip_name: Annotated[str, typer.Option("--chip", help="a2, a3 or 950.")] = "a2",
    report: Annotated[Path | None, typer.Option(metavar="DIR", help="Where reports go; OUT/jumar-report by default.")] = None,
    as_json_: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    select: Annotated[list[str] | None, typer.Option(help="Only rules that start with this code.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Not the rules that start with this code.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Files to copy as they are, as a glob.")] = None,
    distributed: Annotated[str, typer.Option(metavar="SCRIPT", help="Make this script train on many cards.")] = "",
    modelarts: Annotated[bool, typer.Option("--modelarts", help="Add ModelArts arguments and path mapping.")] = False,
    xihe: Annotated[bool, typer.Option("--xihe", help="Add Xihe arguments and pip-requirements.txt.")] = False,
) -> None:  # fmt: skip
    """Port CUDA training code to Ascend NPUs, with a report."""
    try:
        options = Options(
            mode=Mode.NPU_ONLY if npu_only else Mode.PORTABLE,
            torch=torch_version(torch),
            chip=chip(chip_name),
            select=tuple(select or ()),
            ignore=tuple(ignore or ()),
            exclude=tuple(exclude or ()),
            distributed=distributed,
            modelarts=modelarts,
            xihe=xihe,
        )
        target = _target(out, in_place=in_place, dry=diff or check)
        outcome = run.port_repository(
            source, options, target=target, report_dir=report, progress=_progress()
        )
    except JumarError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        raise typer.Exit(2) from None
    _tell(outcome, diff=diff, as_json_=as_json_)
    if check and outcome.needs_attention:
        raise typer.Exit(1)


def _target(out: Path | None, *, in_place: bool, dry: bool) -> run.Target:
    if in_place and out is not None:
        raise BadInput("--in-place and -o OUT exclude each other")
    if dry:
        if in_place:
            raise BadInput("--in-place writes, --diff and --check do not")
        return run.Target(None)
    if not in_place and out is None:
        raise BadInput(
            "where to?",
            hint="-o OUT writes a new folder, --in-place changes SRC, --diff only shows",
        )
    return run.Target(out, in_place=in_place)


def _progress() -> run.Progress:
    """A bar on stderr where a person looks, after a second of waiting; else nothing."""
    if not sys.stderr.isatty():
        return lambda done, total: None
    started = time.monotonic()

    def tell(done: int, total: int) -> None:
        if time.monotonic() - started < 1.0:
            return
        filled = 30 * done // max(1, total)
        end = "\r" if done < total else "\r\033[K"
        print(
            f"\r{'█' * filled}{'░' * (30 - filled)} {done}/{total}",
            end=end,
            file=sys.stderr,
            flush=True,
        )

    return tell


def _tell(outcome: run.Outcome, *, diff: bool, as_json_: bool) -> None:
    if as_json_:
        print(outcome.json)
    elif diff and outcome.report is not None:
        sys.stdout.buffer.write(as_patch.render(outcome.report).encode("utf-8", "surrogateescape"))
    else:
        print(
            f"{outcome.verdict}  ({outcome.changes} edits in {outcome.changed_files} files, {outcome.seconds:.2f} s)"
        )
        if outcome.report_dir is not None:
            print(f"report: {outcome.report_dir / 'report.html'}")
