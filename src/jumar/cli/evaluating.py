"""`jumar eval`: best and last values of trainings, side by side."""

import sys
from collections.abc import Sequence
from typing import cast

import click

from jumar.cli import completing
from jumar.cli.aim_pages import open_in_aim
from jumar.cli.arrays import jobs_of, one_of
from jumar.cli.connect import connected
from jumar.cli.curve import draw
from jumar.cli.output import local, note, print_json, print_table, readable_line, say
from jumar.client import Client
from jumar.errors import BadInput
from jumar.spec.metrics import EvaluatedRun, Evaluation, JobMetrics
from jumar.track.evaluation import Range, order_of, range_of, varying

_MOST_METRICS = 8


class _WithScript(click.Command):
    """What comes after `--` is a command, whatever comes before."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            ctx.obj = args[place + 1 :]
            args = args[:place]
        return super().parse_args(ctx, args)


@click.command(cls=_WithScript)
@click.argument("jobs", metavar="[JOB]...", nargs=-1, shell_complete=completing.jobs)
@click.option("--project", metavar="OWNER/NAME", help="The latest trainings of this project.")
@click.option("--by", metavar="METRIC", help="The best by this metric first.")
@click.option(
    "--where",
    "wanted",
    multiple=True,
    metavar="NAME=LOW..HIGH",
    help="Only runs whose parameter is in this range; may be given several times.",
)
@click.option("--path", default="", help="With a script or --aim: a file or folder of the job.")
@click.option("--aim", "in_aim", is_flag=True, help="Open what the job tracked in Aim's own pages.")
@click.option("--device", default="", help="With a script: by default that of the job.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    context: click.Context,
    jobs: Sequence[str],
    project: str | None,
    by: str | None,
    wanted: Sequence[str],
    path: str,
    in_aim: bool,
    device: str,
    as_json: bool,
) -> None:
    """Show and compare the results of trainings, or evaluate one with a script.

    Metrics are found in the logs (LossMonitor and ValAccMonitor of MindSpore, transformers, Lightning, Keras
    and others), and in what a script tracks with Aim. Parameters are those of the command line and those
    that the script gives to Aim. One training is shown with its curves, several as a table; the id or the
    name of an array means all its jobs.

    A script after -- runs as a job of its own, with the code and the inputs of the training and what it has
    made as --trained_url. Its metrics are shown beside the training's, as eval_....

    \b
    Examples:
      jumar eval lenet
      jumar eval lenet -- python eval.py --batch_size 64
      jumar eval --project ann/lenet --by accuracy --where learning_rate=0.001..0.01
      jumar eval lenet lenet-2 --json
      jumar eval lenet --aim
    """
    if not jobs and not project:
        raise BadInput(
            "no job was given", hint="jumar eval JOB, or: jumar eval --project OWNER/NAME"
        )
    if in_aim:
        open_in_aim(jobs, path)
    script = cast("list[str] | None", context.obj)
    if script is not None:
        _run_script(jobs, script, path, device, as_json)
        return
    ranges = [_range(text) for text in wanted]
    with connected() as client:
        found = client.evaluation(_each(client, jobs), project=project or "")
        runs = _chosen(found, ranges, by)
        if as_json:
            print_json(Evaluation(runs=tuple(runs), is_complete=found.is_complete))
        elif len(runs) == 1:
            _print_one(runs[0], client.metrics(runs[0].job))
        else:
            _print_table(runs, by)


def _each(client: Client, jobs: Sequence[str]) -> Sequence[str]:
    """The jobs by id, each once; the name of an array means all of it, which is what a comparison is for."""
    return list(dict.fromkeys(one.id for job in jobs for one in jobs_of(client, job)))


def _run_script(
    jobs: Sequence[str], script: list[str], path: str, device: str, as_json: bool
) -> None:
    if len(jobs) != 1 or not script:
        raise BadInput(
            "a script evaluates one job", hint="such as: jumar eval JOB -- python eval.py"
        )
    with connected() as client:
        made = client.evaluate(one_of(client, jobs[0]).id, script, path=path, device=device)
    if as_json:
        print_json(made)
        return
    print(made.id)
    note(f"follow it with: jumar logs -f {made.id}; then: jumar eval {jobs[0]}")


def _range(text: str) -> Range:
    found = range_of(text)
    if found is None:
        raise BadInput(
            f"--where {text}: not a range of a parameter",
            hint="such as learning_rate=0.001..0.01, batch_size=32.. or momentum=0.9",
        )
    return found


def _chosen(found: Evaluation, ranges: Sequence[Range], by: str | None) -> list[EvaluatedRun]:
    runs = [run for run in found.runs if all(one.has(run.parameters) for one in ranges)]
    if by is None:
        return runs
    known = sorted({one.name for run in runs for one in run.metrics})
    if runs and by not in known:
        raise BadInput(
            f"--by {by}: these trainings have no such metric",
            hint=f"they have: {', '.join(known)}" if known else "they have told none yet",
        )
    return sorted(runs, key=lambda run: order_of(by, _value(run, by)))


def _value(run: EvaluatedRun, metric: str) -> float | None:
    one = run.standing(metric)
    if one is None:
        return None
    return one.last if one.best is None else one.best


def _print_one(run: EvaluatedRun, metrics: JobMetrics) -> None:
    say(f"{readable_line(run.name)} {run.job} {readable_line(run.run)}".rstrip())
    if not run.metrics:
        note(local("No metrics were found in its logs."))
        return
    rows = [
        (
            one.name,
            _short(one.best),
            "" if one.best_at is None else f"{one.axis} {one.best_at:g}",
            _short(one.last),
        )
        for one in run.metrics
    ]
    print_table(("METRIC", "BEST", "AT", "LAST"), rows)
    plain = not sys.stdout.isatty() or sys.stdout.encoding.lower() != "utf-8"
    ranked = {one.name for one in run.metrics if one.best is not None}
    for curve in metrics.curves:
        numbers = [value for value in curve.y if value is not None]
        if curve.run == run.run and curve.name in ranked and len(numbers) > 1:
            say(f"\n{readable_line(curve.name)}")
            for line in draw(numbers, plain=plain):
                say(line)


def _print_table(runs: Sequence[EvaluatedRun], by: str | None) -> None:
    parameters = varying([run.parameters for run in runs])
    told = [one.name for run in runs for one in run.metrics if one.best is not None]
    metrics = list(dict.fromkeys([by, *told] if by else told))[:_MOST_METRICS]
    rows = [
        (
            run.job,
            run.name,
            run.run,
            *(_short(run.parameters.get(name)) for name in parameters),
            *(_short(_value(run, name)) for name in metrics),
        )
        for run in runs
    ]
    header = ("JOB", "NAME", "RUN", *map(readable_line, (*parameters, *metrics)))
    print_table(header, rows)


def _short(value: float | str | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.5g}"
