"""A training that is told by a rank table who takes part, in the style of TensorFlow 1.15 on Ascend.

TensorFlow 1.15 does not exist for a Python of today, so a line fitted in plain Python stands in for the
network, and sums over a socket stand in for HCCL. What it is told is what the real one is told:
RANK_TABLE_FILE, RANK_ID, RANK_SIZE, DEVICE_ID."""

import argparse
import json
import os
import random
import time
from multiprocessing.connection import Client, Connection, Listener


def main() -> None:
    """Train, and say what rank 0 has found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--learning_rate", type=float, default=0.2)
    parser.add_argument("--output_path", default="output")
    options = parser.parse_args()
    rank, size = int(os.environ["RANK_ID"]), int(os.environ["RANK_SIZE"])
    device = own_device(rank, size)
    print(f"rank {rank} of {size} on device {device}", flush=True)
    group = Group(rank, size)
    numbers = random.Random(rank)
    slope = offset = 0.0
    for step in range(1, options.steps + 1):
        points = [(x, 3.0 * x + 1.0) for x in (numbers.uniform(-1, 1) for _ in range(32))]
        errors = [(slope * x + offset - y, x) for x, y in points]
        mine = [
            sum(e * e for e, _ in errors) / len(errors),
            sum(2 * e * x for e, x in errors) / len(errors),
            sum(2 * e for e, _ in errors) / len(errors),
        ]
        loss, by_slope, by_offset = (value / size for value in group.summed(mine))
        slope -= options.learning_rate * by_slope
        offset -= options.learning_rate * by_offset
        if rank == 0 and step % 50 == 0:
            print(f"step: {step}, loss: {loss:.6f}", flush=True)
    if rank == 0:
        os.makedirs(options.output_path, exist_ok=True)
        with open(os.path.join(options.output_path, "line.json"), "w", encoding="utf-8") as file:
            json.dump({"slope": slope, "offset": offset}, file)
        print(f"y = {slope:.3f} x + {offset:.3f}", flush=True)


def own_device(rank: int, size: int) -> str:
    """The card that the table has for this rank."""
    with open(os.environ["RANK_TABLE_FILE"], encoding="utf-8") as file:
        table = json.load(file)
    devices = [device for server in table["server_list"] for device in server["device"]]
    if len(devices) != size:
        raise SystemExit(f"the rank table has {len(devices)} devices, RANK_SIZE is {size}")
    found = [device["device_id"] for device in devices if int(device["rank_id"]) == rank]
    if found != [os.environ["DEVICE_ID"]]:
        raise SystemExit(f"rank {rank} is on device {found}, not on {os.environ['DEVICE_ID']}")
    return found[0]


class Group:
    """All ranks; rank 0 adds up."""

    def __init__(self, rank: int, size: int) -> None:
        # Short, for the name of a socket has little room; one for each job.
        place = f"\0ranktable-{os.environ.get('JUMAR_JOB_ID', os.getppid())}"
        self.others: list[Connection] = []
        if rank == 0:
            with Listener(place, "AF_UNIX", backlog=size) as door:
                self.others = [door.accept() for _ in range(size - 1)]
        else:
            self.others = [connected(place)]
        self.is_first = rank == 0

    def summed(self, mine: list[float]) -> list[float]:
        """The sum of what all ranks bring."""
        if not self.is_first:
            self.others[0].send(mine)
            return self.others[0].recv()
        total = [
            sum(parts) for parts in zip(mine, *(other.recv() for other in self.others), strict=True)
        ]
        for other in self.others:
            other.send(total)
        return total


def connected(place: str) -> Connection:
    """To rank 0, once it is there."""
    for _ in range(600):
        try:
            return Client(place, "AF_UNIX")
        except (FileNotFoundError, ConnectionRefusedError):
            time.sleep(0.1)
    raise SystemExit("rank 0 did not come")


if __name__ == "__main__":
    main()
