"""A generated week of a 1,000-card cluster, 50,000 jobs: the scheduler beside first come, first
served, and beside EASY backfill, on the same trace."""

import argparse
import time

from jumar.simulate.measures import measure
from jumar.simulate.run import POLICIES, run_policy
from jumar.simulate.workload import lab_week, settled

CARDS_PER_NODE = 8
_LIMIT_S = 60.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--jobs", type=int, default=50_000)
    arguments.add_argument("--cards", type=int, default=1000)
    arguments.add_argument("--load", type=float, default=0.7)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    week = lab_week(given.jobs, given.cards, load=given.load, seed=given.seed)
    workload = settled(
        week, cards_per_node=CARDS_PER_NODE, total_cards=given.cards, seed=given.seed
    )
    print(f"{len(workload.jobs):,} jobs, {given.cards:,} cards, load {given.load:g}")
    print("policy  cpu s  wall s  mean wait s  in use  fairness")
    slowest = 0.0
    for name, policy in POLICIES.items():
        began, cpu = time.perf_counter(), time.process_time()
        told = run_policy(
            workload,
            policy,
            nodes=given.cards // CARDS_PER_NODE,
            cards_per_node=CARDS_PER_NODE,
        )
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        slowest = max(slowest, cpu_s)
        found = measure(name, told, cards=given.cards, took_s=took_s)
        print(
            f"{name:6}  {cpu_s:5.1f}  {took_s:6.1f}  {found.mean_wait_s:11.1f}  "
            f"{found.utilisation:.4f}  {found.fairness:.4f}"
        )
    print(f"slowest {slowest:.1f} s of processor time; the limit is {_LIMIT_S:.0f} s")


if __name__ == "__main__":
    main()
