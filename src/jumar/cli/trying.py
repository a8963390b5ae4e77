"""`jumar try`: run a script on simulated NPUs immediately, without a server or a card."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.cli.output import note, print_json, span_text
from jumar.cli.seconds import whole_seconds
from jumar.errors import BadInput
from jumar.inject.simulated import MODES

if TYPE_CHECKING:
    from jumar.trial.run import Tried


_MOST_READ = 1_000_000


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--devices", type=click.IntRange(1, 64), default=8, show_default=True)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="warn",
    show_default=True,
    help="strict: refuse what a real NPU refuses; warn: run and list it; fast: check nothing.",
)
@click.option("--port", "port_first", is_flag=True, help="Port this folder first and run a copy.")
@click.option(
    "--mini", "minis", multiple=True, metavar="DATA[=N]", help="Use only N files per class.  [4]"
)
@click.option("--steps", type=click.IntRange(1), help="Stop after this many optimizer steps.")
@click.option(
    "--time", "time_limit", metavar="TIME", help="Stop after this time, such as 60s or 5m."
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for the report, or FILE.json for JSON only.",
)
@click.option(
    "--python", metavar="PATH", help="Run python and .py files with this. [default: the shell's]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND…")
def command(
    devices: int,
    mode: str,
    port_first: bool,
    minis: tuple[str, ...],
    steps: int | None,
    time_limit: str | None,
    report: Path | None,
    python: str | None,
    as_json: bool,
    words: tuple[str, ...],
) -> int:
    """Try a script on simulated NPUs.

    `import torch_npu` works in the command and its children. What matters on a real card is
    reported on stderr at the end; the exit code is the command's. With --json, the command's
    output goes to stderr.

    \b
    Examples:
      jumar try --steps 20 -- python train.py --epochs 1
      jumar try --port --mini data=4 --report trial -- python train.py --data data
    """
    # Imported here: `jumar try --help` needs none of it.
    from jumar.cli.transfers import my_stores
    from jumar.trial import mini
    from jumar.trial.run import Wish, try_in_place, try_ported

    file, folder = _places(report)
    time_s = whole_seconds("--time", time_limit) if time_limit is not None else 0
    wish = Wish(
        words=_with_python(words, python),
        devices=devices,
        mode=mode,
        steps=steps or 0,
        time_s=time_s,
        report=file,
        reports=folder,
        minis=tuple(mini.parse(text) for text in minis),
        stdout=sys.stderr.fileno() if as_json else None,
    )
    tried = (try_ported if port_first else try_in_place)(wish, Path.cwd(), my_stores(), note)
    if tried.ended.stopped:
        note(f"jumar: the command was stopped after {span_text(time_s)}")
    if tried.document is None and mode != "fast":
        note(f"jumar: no report: {_why_no_report(tried.ended.code)}")
        if not port_first and _names_cuda(words):
            note(
                "hint: the script is written for CUDA; jumar try --port ports a copy and runs that,"
                " jumar run --auto-port runs it unchanged"
            )
        outside = _outside(words) if port_first else None
        if outside is not None:
            note(
                f"hint: {outside} is outside of this folder and was not ported;"
                " run the command in the folder of the code"
            )
    if as_json:
        print_json(_summary(tried))
    elif folder is not None and tried.document is not None:
        note(f"report: {folder / 'report.html'}")
    return 0 if tried.ended.stopped else tried.ended.code


def _with_python(words: tuple[str, ...], python: str | None) -> tuple[str, ...]:
    """The command with the interpreter asked for, or the shell's where jumar has one of its own."""
    from jumar.host.interpreter import resolve_python

    is_script = words[0].endswith(".py") and not os.access(words[0], os.X_OK)
    if not is_script and words[0] not in ("python", "python3"):
        if python is not None:
            raise BadInput(
                f"--python is for python and .py files, not for {words[0]!r}",
                hint="write: -- python train.py",
            )
        return words
    chosen = resolve_python(python, os.environ)
    name = "python" if is_script else words[0]
    # A name that means the same stays: a path into the folder would not be in the copy of a port.
    on_path = shutil.which(name)
    is_same = on_path is not None and os.path.dirname(on_path) == os.path.dirname(chosen)
    return (name if is_same else chosen, *words[0 if is_script else 1 :])


def _why_no_report(code: int) -> str:
    if code > 128:
        return f"signal {code - 128} killed the command"
    return "the command used no simulated NPU"


def _outside(words: tuple[str, ...]) -> str | None:
    """A script among the words that the port of this folder does not have."""
    here = Path.cwd()
    scripts = (word for word in words if word.endswith(".py") and Path(word).is_file())
    return next((one for one in scripts if not Path(one).resolve().is_relative_to(here)), None)


def _names_cuda(words: tuple[str, ...]) -> bool:
    """Whether a script among the words of a command names CUDA."""
    for word in words:
        if word.endswith(".py"):
            try:
                with Path(word).open("rb") as script:
                    if b"cuda" in script.read(_MOST_READ):
                        return True
            except OSError:
                # The command has said so itself.
                continue
    return False


def _places(report: Path | None) -> tuple[Path | None, Path | None]:
    """The file for the simulation's own report, and the folder for the pages."""
    if report is None:
        return None, None
    report = report.absolute()
    folder = report.parent if report.suffix == ".json" else report
    try:
        if report.suffix != ".json":
            folder.mkdir(exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError
    except OSError:
        raise BadInput(f"--report: cannot write into {folder}") from None
    if report.suffix == ".json":
        return report, None
    return report / "trial.json", report


def _summary(tried: "Tried") -> dict[str, object]:
    import json

    return {
        "exit_code": tried.ended.code,
        "stopped": tried.ended.stopped,
        "seconds": round(tried.ended.seconds, 3),
        "trial": tried.document,
        "port": json.loads(tried.port.json) if tried.port is not None else None,
    }
