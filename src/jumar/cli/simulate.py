"""`jumar simulate`: the scheduler tried on a workload before it is used."""

import time
from pathlib import Path

import click

from jumar.cli.output import local, note, print_json, print_table, say
from jumar.cli.seconds import whole_seconds
from jumar.errors import BadInput

_POLICIES = ("jumar", "easy", "fcfs")
_HEADER = ("POLICY", "MEAN WAIT", "MEDIAN", "95%", "LONGEST", "IN USE", "FAIRNESS", "PREEMPTED")


@click.command()
@click.option("--trace", type=click.Path(path_type=Path), help="A workload; without: a lab's week.")
@click.option("--cards", type=click.IntRange(1, 1_000_000), default=64, help="Number of cards.")
@click.option("--cards-per-node", type=click.IntRange(1, 1024), default=8, help="Cards per node.")
@click.option("--jobs", type=click.IntRange(10, 1_000_000), default=2000, help="Jobs of the week.")
@click.option("--load", type=click.FloatRange(0.01, 5), default=0.8, help="Load of the week.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(_POLICIES),
    help="Only this one; can be given several times.",
)
@click.option("--segment", help="Run jobs in segments of at most this time, for example 4h.")
@click.option(
    "--preemptible", type=click.FloatRange(0, 1), default=0.0, help="Part of preemptible jobs."
)
@click.option("--save-every", default="15m", help="Time between the checkpoints of a job.")
@click.option("--seed", type=int, default=1, help="Seed for everything random.")
@click.option("--plot", "svg", type=click.Path(path_type=Path), help="Write a plot to this SVG.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; times in seconds.")
def command(
    *,
    trace: Path | None,
    cards: int,
    cards_per_node: int,
    jobs: int,
    load: float,
    policies: tuple[str, ...],
    segment: str | None,
    preemptible: float,
    save_every: str,
    seed: int,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Try the scheduler on a workload.

    Runs the scheduler, without cards or processes, over a trace or a generated week of a lab, and
    compares it with first come, first served (fcfs) and with EASY backfill (easy). Traces may be in
    SWF, Philly (cluster_job_log), Helios (cluster_log.csv) or PAI (pai_task_table.csv) format, or
    what jumar jobs --all --json printed. FAIRNESS is 1 if nobody ever held fewer cards than an
    even division among those with jobs would have given them.

    \b
    Examples:
      jumar simulate --cards 64 --load 0.9 --plot week.svg
      jumar jobs --all --json > history.json
      jumar simulate --trace history.json --cards 16 --preemptible 0.3
    """
    from jumar.simulate.measures import Measures, measure
    from jumar.simulate.plot import plot
    from jumar.simulate.readers import read_trace
    from jumar.simulate.run import POLICIES, run_policy
    from jumar.simulate.workload import DAY_S, lab_week, settled, with_preemptible
    from jumar.wholefile import write_whole

    segment_s = None if segment is None else float(whole_seconds("--segment", segment))
    save_every_s = float(whole_seconds("--save-every", save_every))
    cards_per_node = min(cards, cards_per_node)
    nodes = cards // cards_per_node
    cards = nodes * cards_per_node
    notes: list[str] = []
    if trace is None:
        title = local("a generated week at load {load}, seed {seed}", load=f"{load:g}", seed=seed)
        found = lab_week(jobs, cards, load=load, seed=seed)
    else:
        read = read_trace(trace)
        title = f"{trace.name} ({read.format})"
        found, notes = read.jobs, [*read.notes]
        if read.left_out:
            notes.append(f"{read.left_out} entries did not run on cards and are left out")
    found = with_preemptible(found, preemptible, seed)
    workload = settled(found, cards_per_node=cards_per_node, total_cards=cards, seed=seed)
    for line in (*notes, *workload.notes):
        note(line)
    results: list[Measures] = []
    for name in policies or _POLICIES:
        began = time.perf_counter()
        told = run_policy(
            workload,
            POLICIES[name],
            nodes=nodes,
            cards_per_node=cards_per_node,
            segment_s=segment_s,
            save_every_s=save_every_s,
        )
        took_s = time.perf_counter() - began
        results.append(measure(name, told, cards=cards, took_s=took_s))
    days = (workload.jobs[-1].submitted - workload.jobs[0].submitted) / DAY_S
    if svg is not None:
        try:
            write_whole(svg, plot(results, title, days))
        except OSError as error:
            raise BadInput(f"--plot {svg}: {error.strerror}") from None
    if as_json:
        print_json(results)
        return
    size = {"jobs": f"{len(workload.jobs):,}", "days": f"{days:.1f}", "cards": f"{cards:,}"}
    say(local("{title}: {jobs} jobs over {days} days on {cards} cards", title=title, **size))
    print_table(
        _HEADER,
        [
            (
                run.policy,
                *map(_short, (run.mean_wait_s, run.median_wait_s, run.p95_wait_s)),
                _short(run.longest_wait_s),
                f"{run.utilisation:.1%}",
                f"{run.fairness:.3f}",
                str(run.preemptions),
            )
            for run in results
        ],
    )


def _short(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
