"""A job whose ranks overwrite a file each goes on from one save on all of them, wherever one was killed."""

import re
import sys
from pathlib import Path

from tests.jobs.test_segments import CARDS, Bench, S

from jumar.engine.local.engine import LocalEngine
from jumar.engine.shared.files import Stages
from jumar.store.users import UserStores
from jumar.words.sentences import spoken

# Without a word that says what the numbers are: it takes the job's number of ranks to know.
SAVES = """
import os, pathlib, pickle, signal, time
rank, attempt = int(os.environ["RANK"]), int(os.environ["JUMAR_ATTEMPT"])
job = pathlib.Path(os.environ["JUMAR_JOB_DIR"])
path = pathlib.Path(os.environ["JUMAR_CKPT_DIR"], f"state_{rank}.pkl")
meeting = pathlib.Path(f"meeting-{attempt}")
meeting.mkdir(exist_ok=True)

def meet(step):
    (meeting / f"{rank}-{step}").touch()
    while not (meeting / f"{1 - rank}-{step}").exists():
        time.sleep(0.005)

def kept():
    found = []
    for one in job.glob("versions/*/[0-9]*/state_0.pkl"):
        try:
            found.append(pickle.loads(one.read_bytes())["step"])
        except OSError:
            continue
    return max(found, default=0)

state = pickle.loads(path.read_bytes()) if path.exists() else {"step": 0}
step = begin = state["step"]
print("from", step, flush=True)
while step < begin + (3 if attempt == 3 else 200):
    step += 1
    meet(step)
    data = pickle.dumps({"step": step, "weights": bytes(9999)})
    with open(path, "wb") as file:
        file.write(data[:5000])
        if rank == 1 and attempt < 3 and kept() > begin:
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        file.write(data[5000:])
    time.sleep(0.7)
"""


def test_all_ranks_go_on_from_the_same_step(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SAVES)
    engine = LocalEngine(tmp_path, CARDS, stages=Stages(UserStores(tmp_path, owner="ann")))
    engine.prepare()
    bench = Bench(tmp_path, engine)
    fields = {"device": "sim:2", "ranks": "device", "retries": 2, "workdir": str(tmp_path)}
    job = bench.submit([sys.executable, "train.py"], **fields)
    ended = bench.wait(job, *[state for state in S if state.is_final])
    bench.service.close()
    logs = [Path(ended.directory, "logs/node0", f"rank{rank}.log").read_text() for rank in (0, 1)]
    assert ended.state is S.SUCCEEDED, (ended, logs)
    ours, theirs = [re.findall(r"^from (\d+)$", log, re.MULTILINE) for log in logs]
    assert ours == theirs
    assert len(ours) == 3
    assert int(ours[0]) == 0 < int(ours[1]) < int(ours[2])
    for attempt in ended.attempts[1:]:
        told, aside = attempt.notes
        assert told.endswith(
            "all of its last complete save is back: " + f"{ended.directory}/ckpt/state_*.pkl"
        )
        assert spoken(told, "zh").startswith("由多个文件组成的检查点残缺")
        assert Path(aside.split(": ")[1], "state_1.pkl").exists()
        assert spoken(aside, "zh").startswith("被换下的文件保留在")
