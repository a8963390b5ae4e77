"""`jumar demo`: the example of the package, ported and trained on simulated NPUs."""

import os
import shutil
import sys
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import jumar
from jumar.cli.connect import Connected, connect
from jumar.cli.curve import draw
from jumar.cli.follow import summarise
from jumar.cli.job_values import with_local_defaults
from jumar.cli.output import language, local, note, padded, print_json, span, state_text
from jumar.cli.run import with_code_sent
from jumar.client import Client, LogChunk, Reconnecting
from jumar.errors import BadInput
from jumar.settings import home_of
from jumar.spec.records import JobRecord
from jumar.spec.states import JobState
from jumar.track.training import Training

if TYPE_CHECKING:
    from rich.progress import Progress

GOOD_ENOUGH = 0.98
_NEEDED = {"torch", "numpy"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the demo ends with."""

    id: str
    state: JobState
    accuracy: float | None
    results: str
    report: str
    url: str
    login_url: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(as_json: bool) -> int:
    """Port a CUDA script and train it on simulated NPUs.

    Ports the digits example, submits it as a job on two simulated NPUs, shows its progress,
    and leaves the server running. Takes about half a minute on two cores.

    \b
    Example:
      jumar demo
    """
    folder = example_folder("digits")
    python = _python_with_torch()
    server = connect()
    with server.client as client:
        ported = _port(folder)
        job = client.submit(_request(server, ported.folder, python))
        note(f"submitted {job.name} ({job.id}): two simulated NPUs learn to read digits")
        training = Training()
        try:
            _watch(client, job, training)
        except KeyboardInterrupt:
            note(f"\nstill running; come back with: jumar logs -f {job.id}")
            return 130
        ended = client.get(job.id)
        result = Result(
            id=ended.id,
            state=ended.state,
            accuracy=training.accuracy,
            results=f"{ended.directory}/out/results",
            report=str(ported.report),
            # The client itself may come through a Unix socket.
            url=f"{client.server().url}/jobs/{ended.id}",
            login_url=client.login_url(),
        )
    if as_json:
        print_json(result)
    else:
        _tell(ended, training, result)
    good = training.accuracy is not None and training.accuracy >= GOOD_ENOUGH
    return 0 if ended.state is JobState.SUCCEEDED and good else 1


def example_folder(name: str) -> Path:
    """An example's folder: inside an installed package, or at the top of a checkout."""
    package = Path(jumar.__file__).parent
    for place in (package / "examples" / name, package.parent.parent / "examples" / name):
        if (place / "job.yaml").is_file():
            return place
    raise BadInput(f"the example {name} is missing", hint="reinstall jumar")


@dataclass(frozen=True, slots=True)
class Ported:
    """The example as it runs on NPUs."""

    folder: Path
    report: Path


def _port(folder: Path) -> Ported:
    from jumar.port.options import Options
    from jumar.port.run import Target, port_repository

    place = home_of() / "demo"
    # Only what an earlier demo has left here.
    shutil.rmtree(place, ignore_errors=True)
    ported = Ported(place / "digits", place / "report")
    outcome = port_repository(
        folder, Options(), target=Target(ported.folder), report_dir=ported.report
    )
    note(
        f"ported {folder.name} from CUDA in {outcome.seconds:.1f} s: "
        f"{getattr(outcome.verdict, language())}, {outcome.changes} edits; see {ported.folder}"
    )
    return ported


def _python_with_torch() -> str:
    """This Python, or the shell's: a site's own belongs to root and holds no frameworks."""
    from jumar.host.interpreter import inspect, shell_python

    if all(map(find_spec, _NEEDED)):
        return sys.executable
    with suppress(BadInput):
        found = inspect(shell_python(os.environ), os.environ)
        if found.packages.keys() >= _NEEDED:
            return found.executable
    folder = "~/torch"
    if os.access(sys.prefix, os.W_OK):
        hint = f"install them beside jumar: {sys.executable} -m pip install torch numpy"
    else:
        hint = (
            f"python3 -m venv {folder} && {folder}/bin/pip install torch numpy, "
            f"then: PATH={folder}/bin:$PATH jumar demo"
        )
    raise BadInput("the demo trains a model and needs torch and numpy", hint=hint)


def _request(server: Connected, folder: Path, python: str) -> dict[str, Any]:
    from jumar.spec.document import read_spec_file

    values = {**read_spec_file(folder / "job.yaml").dump(), "device": "sim:2", "code": str(folder)}
    values = with_code_sent(server.client, values)
    if server.on_this_machine:
        values["command"] = [python, *values["command"][1:]]
        values = with_local_defaults(values, os.environ, folder)
    return values


def _watch(client: Client, job: JobRecord, training: Training) -> None:
    """Follow the job: a bar in a terminal, plain lines elsewhere."""
    bar = _bar() if sys.stderr.isatty() else None
    task = bar.add_task(local("starting"), total=None, figures="") if bar else None
    with bar or nullcontext():
        for event in client.follow(job.id):
            if isinstance(event, Reconnecting):
                note(f"{event.why}; trying again in {event.pause_s:g} s")
            if not isinstance(event, LogChunk):
                continue
            lines = training.feed(event.text)
            if bar is None or task is None:
                for line in lines:
                    note(f"  {line}")
                continue
            bar.update(
                task,
                description=local("training" if training.steps else "starting"),
                total=training.steps or None,
                completed=training.step,
                figures=_figures(training),
            )


def _bar() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )


def _figures(training: Training) -> str:
    words: list[str] = []
    if training.losses:
        loss = f"{training.losses[-1]:.3f}"
        values = {"step": training.step, "steps": training.steps, "loss": loss}
        words.append(local("step {step}/{steps}  loss {loss}", **values))
    if training.accuracy is not None:
        words.append(local("accuracy {share}", share=f"{training.accuracy:.1%}"))
    return "  ".join(words)


def _fact(label: str, text: str) -> None:
    print(f"{padded(local(label), 10)} {text}")


def _tell(ended: JobRecord, training: Training, result: Result) -> None:
    if ended.state is not JobState.SUCCEEDED:
        summarise(ended)
    ran = span(ended.started_at, ended.finished_at)
    _fact("state", local("{state}, after {span}", state=state_text(ended.state), span=ran))
    if training.accuracy is not None:
        share = f"{training.accuracy:.2%}"
        _fact("accuracy", local("{share} on digits it had never seen", share=share))
    if training.losses:
        plain = not sys.stdout.isatty() or sys.stdout.encoding.lower() != "utf-8"
        _fact("loss", local("over {steps} steps", steps=training.step))
        for line in draw(training.losses, plain=plain):
            print(f"  {line}")
    _fact("results", result.results)
    _fact("port", f"{result.report}/report.html")
    _fact("job page", result.url)
    _fact("sign in", result.login_url)
    note("the server is still running; stop it with: jumar down")
