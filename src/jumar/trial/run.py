"""`jumar try`: one command on simulated NPUs, in place or in a ported copy of its folder."""

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jumar.inject.simulated import environment
from jumar.port import trial_report
from jumar.port.command_line import ported as ported_command
from jumar.port.options import Options
from jumar.port.report.summary import Evidence
from jumar.port.run import Outcome, Target, port_repository
from jumar.port.tree import TreeResult
from jumar.store.credentials import StoreConfig
from jumar.trial import mini
from jumar.trial.process import Command, Ended, leaving_on_term, resolved, run, with_own_python
from jumar.trial.scratch import check_room, make_copy, placed

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to try, and for how long."""

    words: tuple[str, ...]
    devices: int
    mode: str
    steps: int = 0
    time_s: int = 0
    report: Path | None = None
    """Where the simulation writes its report; by default a scratch file."""
    reports: Path | None = None
    """A folder for pages: of the trial, and of the port if there was one."""
    minis: tuple[mini.Wanted, ...] = ()
    stdout: int | None = None


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of a trial."""

    ended: Ended
    document: dict[str, Any] | None
    """The report of the simulation; None if no device was used."""
    port: Outcome | None = None


def try_in_place(wish: Wish, folder: Path, config: StoreConfig, tell: Tell) -> Tried:
    """Run the command in `folder` itself."""
    with leaving_on_term(), tempfile.TemporaryDirectory(prefix="jumar-try-") as place:
        scratch = Path(place).resolve()
        words = wish.words
        for number, wanted in enumerate(wish.minis):
            made = mini.cut(wanted, scratch / f"mini{number}", config, folder)
            _tell_cut(made.report, wanted, tell)
            words = mini.renamed(words, wanted, made.path)
        ended, document = _run(replace(wish, words=words), folder, scratch)
        if wish.reports is not None and document is not None:
            from jumar.port.report.as_html import trial_page

            page = trial_page(folder.name, trial_report.read(document, folder))
            (wish.reports / "report.html").write_text(page, "utf-8")
        return Tried(ended, document)


def try_ported(wish: Wish, source: Path, config: StoreConfig, tell: Tell) -> Tried:
    """Port `source` and run the command in the port; both are in the report."""
    seen: list[Tried] = []

    def witness(result: TreeResult) -> Evidence:
        with leaving_on_term(), tempfile.TemporaryDirectory(prefix="jumar-try-") as place:
            scratch = Path(place).resolve()
            copy = scratch / "port"
            edits = sum(len(file.changes) for file in result.results)
            tell(f"ported {source.name}: {edits} edits; the command runs in a copy")
            ready = _copied(wish, result, copy, config, tell)
            ended, document = _run(ready, copy, scratch)
            seen.append(Tried(ended, document))
            return Evidence(trial=trial_report.read(document, copy) if document else None)

    outcome = port_repository(
        source, Options(), target=Target(None), report_dir=wish.reports, witness=witness
    )
    return replace(seen[0], port=outcome)


def _copied(wish: Wish, result: TreeResult, copy: Path, config: StoreConfig, tell: Tell) -> Wish:
    """The port in its own folder, with mini data if requested."""
    words = wish.words
    swapped: list[tuple[str, Path]] = []
    for number, wanted in enumerate(wish.minis):
        made = mini.cut(wanted, copy.parent / f"mini{number}", config, result.root)
        _tell_cut(made.report, wanted, tell)
        within = mini.inside(wanted, result.root)
        if within is None:
            words = mini.renamed(words, wanted, made.path)
        else:
            swapped.append((within, made.path))
    kept = tuple(f for f in result.files if not any(_below(f.path, name) for name, _ in swapped))
    result = replace(result, files=kept)
    check_room(result, copy.parent, copies=1)
    make_copy(result, copy, ported=True)
    for within, target in swapped:
        mini.put(target, copy / within)
    return replace(wish, words=ported_command(placed(words, result.root, copy)))


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _tell_cut(report: mini.MiniReport, wanted: mini.Wanted, tell: Tell) -> None:
    tell(f"{wanted.name}: {report.kept} of {report.files} files, layout: {report.layout}")


def _run(wish: Wish, folder: Path, scratch: Path) -> tuple[Ended, dict[str, Any] | None]:
    environ = with_own_python(os.environ)
    report = wish.report or scratch / "trial.json"
    report.unlink(missing_ok=True)
    ended = run(
        Command(
            words=resolved(wish.words, environ, folder),
            environ=environment(
                environ,
                devices=wish.devices,
                mode=wish.mode,
                report=report,
                steps=wish.steps,
                time_s=wish.time_s,
            ),
            folder=folder,
            time_s=wish.time_s,
            stdout=wish.stdout,
        )
    )
    try:
        return ended, json.loads(report.read_text("utf-8"))
    except (OSError, ValueError):
        return ended, None
