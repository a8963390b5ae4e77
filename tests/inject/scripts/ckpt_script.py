"""Ten epochs with jumar_ckpt: stopped, killed while training or saving, as the words on the command line say."""

import hashlib
import os
import pickle
import random
import signal
import sys

from jumar_ckpt import Checkpoints


def write(state, path):
    """Slowly enough to be killed in the middle."""
    data = pickle.dumps(state)
    with open(path, "wb") as file:
        file.write(data[: len(data) // 2])
        file.flush()
        if FAULT == "kill-saving" and state["epoch"] == AT:
            os.kill(os.getpid(), signal.SIGKILL)
        file.write(data[len(data) // 2 :])


def read(path):
    with open(path, "rb") as file:
        return pickle.load(file)


FAULT, AT = sys.argv[1], int(sys.argv[2])
every_rank = "every-rank" in sys.argv
own = {"write": write, "read": read} if "own" in sys.argv else {}
random.seed(1)
checkpoints = Checkpoints(keep=2, every_rank=every_rank, patience_s=60, **own)
state = checkpoints.load() or {"epoch": -1, "weights": [0.0] * 100, "rank": os.environ.get("RANK")}
assert not every_rank or state["rank"] == os.environ.get("RANK"), state["rank"]
for epoch in range(state["epoch"] + 1, 10):
    state["weights"] = [value + random.random() for value in state["weights"]]
    state["epoch"] = epoch
    if FAULT == "kill" and epoch == AT:
        os.kill(os.getpid(), signal.SIGKILL)
    if FAULT == "term" and epoch == AT:
        os.kill(os.getpid(), signal.SIGTERM)
    if FAULT == "file" and epoch == AT and os.environ.get("RANK", "0") == "0":
        open(os.environ["JUMAR_STOP_FILE"], "w").close()
    checkpoints.save(state, step=epoch)
    if checkpoints.should_stop():
        print("leaves after", epoch)
        checkpoints.leave()
print(hashlib.sha256(repr(state["weights"]).encode()).hexdigest())
