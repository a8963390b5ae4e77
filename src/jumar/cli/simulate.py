"""`jumar simulate`: the scheduler tried on a workload before it is used."""

import time
from dataclasses import asdict
from pathlib import Path

import click

from jumar.cli.output import local, note, print_json, print_table, rough_span, say
from jumar.cli.seconds import whole_seconds
from jumar.errors import BadInput

_CARDS = 64
_POLICIES = ("jumar", "easy", "fcfs")
_HEADER = ("POLICY", "MEAN WAIT", "MEDIAN", "95%", "LONGEST", "IN USE", "FAIRNESS", "PREEMPTED")


@click.command()
@click.option("--trace", type=click.Path(path_type=Path), help="A workload; without: a lab's week.")
@click.option(
    "--cards",
    type=click.IntRange(1, 1_000_000),
    help="Number of cards.  [default: what the trace says, else 64]",
)
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
    cards: int | None,
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
    from jumar.simulate.measures import looked_at, measure
    from jumar.simulate.plot import plot
    from jumar.simulate.readers import read_trace
    from jumar.simulate.run import POLICIES, Told, run_policy
    from jumar.simulate.workload import DAY_S, lab_week, settled, with_preemptible
    from jumar.wholefile import write_whole

    segment_s = None if segment is None else float(whole_seconds("--segment", segment))
    save_every_s = float(whole_seconds("--save-every", save_every))
    notes: list[str] = []
    read = None if trace is None else read_trace(trace)
    if cards is None and read is not None and read.cards is not None:
        cards = read.cards
        notes.append(f"the trace is of {cards} cards (MaxProcs); --cards simulates another number")
    cards = cards or _CARDS
    cards_per_node = min(cards, cards_per_node)
    nodes = cards // cards_per_node
    cards = nodes * cards_per_node
    if trace is None or read is None:
        title = local("a generated week at load {load}, seed {seed}", load=f"{load:g}", seed=seed)
        found = lab_week(jobs, cards, load=load, seed=seed)
    else:
        title = f"{trace.name} ({read.format})"
        found, notes = read.jobs, [*notes, *read.notes, *_left_out(read.left_out, read.unended)]
    found = with_preemptible(found, preemptible, seed)
    workload = settled(found, cards_per_node=cards_per_node, total_cards=cards, seed=seed)
    for line in (*notes, *workload.notes):
        note(line)
    runs: list[tuple[str, list[Told], float]] = []
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
        runs.append((name, told, time.perf_counter() - began))
    until = max(looked_at(told)[1] for _, told, _ in runs)
    results = [
        measure(name, told, cards=cards, took_s=took_s, until=until) for name, told, took_s in runs
    ]
    first = workload.jobs[0].submitted
    days = (workload.jobs[-1].submitted - first) / DAY_S
    if svg is not None:
        try:
            write_whole(svg, plot(results, title, (until - first) / DAY_S))
        except OSError as error:
            raise BadInput(f"--plot {svg}: {error.strerror}") from None
    if as_json:
        # Without what the plot is drawn of: two thousand numbers each.
        drawn = ("busy", "waiting")
        print_json([{k: v for k, v in asdict(run).items() if k not in drawn} for run in results])
        return
    size = {"jobs": f"{len(workload.jobs):,}", "days": f"{days:.1f}", "cards": f"{cards:,}"}
    say(local("{title}: {jobs} jobs over {days} days on {cards} cards", title=title, **size))
    print_table(
        _HEADER,
        [
            (
                run.policy,
                *map(rough_span, (run.mean_wait_s, run.median_wait_s, run.p95_wait_s)),
                rough_span(run.longest_wait_s),
                f"{run.utilisation:.1%}",
                f"{run.fairness:.3f}",
                str(run.preemptions),
            )
            for run in results
        ],
    )


def _left_out(without_cards: int, unended: int) -> list[str]:
    notes: list[str] = []
    if without_cards:
        notes.append(
            "1 entry did not run on cards and is left out"
            if without_cards == 1
            else f"{without_cards} entries did not run on cards and are left out"
        )
    if unended:
        notes.append(
            "1 job had not ended yet and is left out"
            if unended == 1
            else f"{unended} jobs had not ended yet and are left out"
        )
    return notes
