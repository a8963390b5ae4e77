"""`jumar port`: CUDA training code to Ascend.

stdout is data (the verdict, a diff, JSON), progress goes to stderr. Exit codes: 0 ported, 1 ported
but places need work (`--check`) or the proof failed (`--prove`), 2 bad input."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.cli.output import language, note, say, translated
from jumar.cli.seconds import whole_seconds
from jumar.errors import BadInput

if TYPE_CHECKING:
    from jumar.port.records import Words
    from jumar.port.report.summary import Evidence
    from jumar.port.run import Outcome, Progress, Target, Witness
    from jumar.port.tree import TreeResult

FOLDER = click.Path(path_type=Path)
_BAR = 30
_MOST_DECISIONS = 10


@click.command()
@click.argument("source", metavar="SRC", type=FOLDER)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("-o", "--out", type=FOLDER, metavar="OUT", help="New folder for the port.")
@click.option("--in-place", is_flag=True, help="Change SRC itself.")
@click.option("--diff", is_flag=True, help="Print a patch; write nothing.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if work is left.")
@click.option(
    "--npu-only/--portable",
    default=False,
    help="Plain NPU code, or code for NPU, GPU and CPU. [default: portable]",
)
@click.option("--torch", "torch_", default="2.7", metavar="VERSION", help="Target torch version.")
@click.option("--chip", "chip_", default="a2", metavar="CHIP", help="Target chip: a2, a3 or 950.")
@click.option(
    "--report",
    type=FOLDER,
    metavar="DIR",
    help="Folder for the reports. [default: OUT/jumar-report]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option(
    "--select", multiple=True, metavar="CODE", help="Only rules whose code starts with this."
)
@click.option(
    "--ignore", multiple=True, metavar="CODE", help="Skip rules whose code starts with this."
)
@click.option("--exclude", multiple=True, metavar="GLOB", help="Files to copy unchanged.")
@click.option(
    "--distributed", default="", metavar="SCRIPT", help="Adapt this script to train on many cards."
)
@click.option("--modelarts", is_flag=True, help="Add ModelArts arguments and path mapping.")
@click.option("--xihe", is_flag=True, help="Add Xihe arguments and pip-requirements.txt.")
@click.option(
    "--prove",
    is_flag=True,
    help="Run the original and the port with COMMAND and compare the results.",
)
@click.option(
    "--steps",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    help="With --prove: optimizer steps per run.",
)
@click.option(
    "--time",
    "time_limit",
    default="10m",
    show_default=True,
    metavar="TIME",
    help="With --prove: time limit per run.",
)
@click.option(
    "--devices",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="With --prove: number of simulated NPUs.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 1),
    default=1e-5,
    show_default=True,
    help="With --prove: relative difference that still counts as equal.",
)
def command(
    source: Path,
    words: tuple[str, ...],
    out: Path | None,
    in_place: bool,
    diff: bool,
    check: bool,
    npu_only: bool,
    torch_: str,
    chip_: str,
    report: Path | None,
    as_json: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    exclude: tuple[str, ...],
    distributed: str,
    modelarts: bool,
    xihe: bool,
    prove: bool,
    steps: int,
    time_limit: str,
    devices: int,
    tolerance: float,
) -> int:
    """Port CUDA training code to Ascend NPUs, with a report.

    \b
    Examples:
      jumar port my-training -o my-training-npu
      jumar port my-training --diff
      jumar port . --check
      jumar port my-training -o my-training-npu --prove -- python train.py --epochs 1
    """
    # Imported here: `jumar port --help` needs none of it.
    from jumar.port.options import Mode, Options, chip, torch_version
    from jumar.port.run import port_repository
    from jumar.port.scan import check_root

    options = Options(
        mode=Mode.NPU_ONLY if npu_only else Mode.PORTABLE,
        torch=torch_version(torch_),
        chip=chip(chip_),
        select=select,
        ignore=ignore,
        exclude=exclude,
        distributed=distributed,
        modelarts=modelarts,
        xihe=xihe,
    )
    check_root(source)
    target = _target(out, in_place=in_place, dry=diff or check)
    outcome = port_repository(
        source,
        options,
        target=target,
        report_dir=report,
        progress=_progress(),
        witness=_witness(
            words,
            wanted=prove,
            steps=steps,
            time_limit=time_limit,
            devices=devices,
            tolerance=tolerance,
        ),
    )
    _tell(outcome, diff=diff, as_json=as_json)
    return 1 if (check and outcome.needs_attention) or _is_unproven(outcome) else 0


def _target(out: Path | None, *, in_place: bool, dry: bool) -> "Target":
    from jumar.port.run import Target

    if in_place and out is not None:
        raise BadInput("--in-place and -o OUT cannot be combined")
    if dry and in_place:
        raise BadInput("--in-place cannot be combined with --diff or --check")
    if dry:
        return Target(None)
    if not in_place and out is None:
        raise BadInput(
            "no target for the port",
            hint="use -o OUT for a new folder, --in-place to change SRC, or --diff to only show it",
        )
    return Target(out, in_place=in_place)


def _progress() -> "Progress | None":
    """A bar on stderr if it is a terminal, after one second; otherwise nothing."""
    if not sys.stderr.isatty():
        return None
    started = time.monotonic()

    def tell(done: int, total: int) -> None:
        if time.monotonic() - started < 1.0:
            return
        filled = _BAR * done // max(1, total)
        bar = f"\r{'█' * filled}{'░' * (_BAR - filled)} {done}/{total}"
        print(bar if done < total else "\r\033[K", end="", file=sys.stderr, flush=True)

    return tell


def _tell(outcome: "Outcome", *, diff: bool, as_json: bool) -> None:
    if as_json:
        print(outcome.json)
    elif diff and outcome.report is not None:
        from jumar.port.report.as_patch import render

        # Files may be in any encoding, so the patch is written as bytes.
        sys.stdout.buffer.write(render(outcome.report).encode("utf-8", "surrogateescape"))
    else:
        verdict = _in_words(outcome.verdict)
        say(translated(f"{verdict} ({_counted(outcome)}, {outcome.seconds:.2f} s)"))
        _tell_decisions(outcome)
        _tell_proof(outcome)
        if outcome.how_to_prove:
            say(translated(f"to prove it: {outcome.how_to_prove}"))
        if outcome.report_dir is not None:
            say(translated(f"report: {outcome.report_dir / 'report.html'}"))


def _counted(outcome: "Outcome") -> str:
    edits, files = outcome.changes, outcome.changed_files
    if edits == 1:
        return "1 edit in 1 file"
    return f"{edits:,} edits in 1 file" if files == 1 else f"{edits:,} edits in {files:,} files"


def _tell_decisions(outcome: "Outcome") -> None:
    """What needs work, one line per decision; limits and notes are in the report."""
    work = [d for d in outcome.decisions if d["severity"] == "work" and not d["in_tests"]]
    for decision in work[:_MOST_DECISIONS]:
        count = sum(not place["in_tests"] for place in decision["places"])
        places = "1 place" if count == 1 else f"{count} places"
        say(translated(f"  {decision['title'][language()]}: {places}"))
    if len(work) > _MOST_DECISIONS:
        say(translated(f"  and {len(work) - _MOST_DECISIONS} more"))
    in_tests = sum(place["in_tests"] for d in outcome.decisions for place in d["places"])
    if in_tests:
        places = "1 place" if in_tests == 1 else f"{in_tests} places"
        say(translated(f"  in tests: {places}"))


def _witness(
    words: tuple[str, ...],
    *,
    wanted: bool,
    steps: int,
    time_limit: str,
    devices: int,
    tolerance: float,
) -> "Witness | None":
    """The witness that tries the port before it is written; None without --prove."""
    if not wanted:
        if words:
            raise BadInput(
                "a command can only be used with --prove",
                hint="write: jumar port SRC -o OUT --prove -- …",
            )
        return None
    if not words:
        raise BadInput(
            "--prove needs a training command",
            hint="put it after --, as in: jumar port SRC -o OUT --prove -- python train.py",
        )
    from jumar.inject.starting import Limits
    from jumar.trial.prove import Wish, prove

    limits = Limits(steps, whole_seconds("--time", time_limit))
    wish = Wish(words=words, limits=limits, devices=devices, tolerance=tolerance)

    def try_it(result: "TreeResult") -> "Evidence":
        return prove(result, wish, note)

    return try_it


def _in_words(words: "Words") -> str:
    """One sentence of the report in the language of the terminal."""
    return words.zh if language() == "zh" else words.en


def _tell_proof(outcome: "Outcome") -> None:
    """The verdict and the first difference on stdout."""
    proof = outcome.report.proof if outcome.report is not None else None
    if proof is None:
        return
    from jumar.port.report import proof_text

    say(_in_words(proof_text.headline(proof)))
    for words in proof_text.details(proof):
        say(f"  {_in_words(words)}")
    for place in (proof.origin, proof.difference, proof.original_failure, proof.ported_failure):
        if place is not None and place.source:
            print(f"    {place.where}  {place.source}")
    sys.stdout.flush()


def _is_unproven(outcome: "Outcome") -> bool:
    """Whether a proof was requested and failed."""
    proof = outcome.report.proof if outcome.report is not None else None
    return proof is not None and not proof.equal
