"""The training that `schedules` disturbs."""

EPOCHS = 10
# Two ranks that do not talk, each with random numbers and a shard of its own.
SCRIPT = """
import os, random, signal, sys, time
from pathlib import Path
from jumar_ckpt import Checkpoints

here, rank, kind = Path(sys.argv[1]), int(os.environ["RANK"]), sys.argv[2]
checkpoints = Checkpoints(keep=2, every_rank=True)

def told(word, epoch):
    with open(here / f"progress.{rank}", "a") as file:
        file.write(f"{word} {epoch} {os.environ['JUMAR_ATTEMPT']}\\n")

def torn(epoch, path):
    # As a disk leaves it: a file cut anywhere, or gone.
    for word in ("tear", "shard"):
        order = here / word
        if order.exists():
            shards = sorted(one for one in Path(path).iterdir() if one.name.startswith("rank-"))
            shard = shards[int(order.read_text()) % len(shards)]
            cut = random.Random(order.read_text()).randrange(shard.stat().st_size)
            order.unlink()
            os.truncate(shard, cut) if word == "tear" else shard.unlink()
            told("torn", epoch)
            os.kill(os.getpid(), signal.SIGKILL)

if kind == "plain":
    class Model:
        def __init__(self):
            random.seed(rank)
            self.weights = [random.gauss(0, 1) for _ in range(64)]
        def epoch(self):
            for _ in range(500):
                at = random.randrange(64)
                self.weights[at] = 0.99 * self.weights[at] + random.gauss(0, 0.1)
        def state(self):
            return self.weights
        def load(self, state):
            self.weights = state
        def bits(self):
            return "\\n".join(map(float.hex, self.weights))
elif kind == "torch":
    import torch
    torch.set_num_threads(1)
    class Model:
        def __init__(self):
            torch.manual_seed(rank)
            self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))
            self.optimizer = torch.optim.Adam(self.net.parameters(), 0.01)
        def epoch(self):
            for _ in range(20):
                x = torch.randn(16, 8)
                loss = ((self.net(x) - x.sum(1, keepdim=True)) ** 2).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        def state(self):
            return {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}
        def load(self, state):
            self.net.load_state_dict(state["net"])
            self.optimizer.load_state_dict(state["optimizer"])
        def bits(self):
            return "\\n".join(value.numpy().tobytes().hex() for value in self.net.state_dict().values())
else:
    import mindspore as ms
    from mindspore import nn, ops
    ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
    import numpy
    class Model:
        def __init__(self):
            numpy.random.seed(rank)
            ms.set_seed(rank)
            self.net = nn.Dense(8, 1)
            self.optimizer = nn.Momentum(self.net.trainable_params(), 0.01, 0.9)
            self.step = ms.value_and_grad(self.loss, None, self.optimizer.parameters)
        def loss(self, x, y):
            return ((self.net(x) - y) ** 2).mean()
        def epoch(self):
            for _ in range(5):
                x = numpy.random.randn(16, 8).astype("float32")
                _, grads = self.step(ms.Tensor(x), ms.Tensor(x.sum(1, keepdims=True)))
                self.optimizer(grads)
        def state(self):
            both = [*self.net.get_parameters(), *self.optimizer.get_parameters()]
            return {one.name: one.asnumpy().copy() for one in both}
        def load(self, state):
            for one in [*self.net.get_parameters(), *self.optimizer.get_parameters()]:
                one.set_data(ms.Tensor(state[one.name]))
        def bits(self):
            return "\\n".join(one.asnumpy().tobytes().hex() for one in self.net.get_parameters())

model = Model()
state = checkpoints.load()
if state is not None:
    model.load(state["model"])
epoch = 0 if state is None else state["epoch"]
told("begin", epoch)
while epoch < EPOCHS:
    epoch += 1
    model.epoch()
    time.sleep(float(sys.argv[3]))
    told("did", epoch)
    path = checkpoints.save({"epoch": epoch, "model": model.state()}, step=epoch)
    told("saved", epoch)
    if rank == 0:
        torn(epoch, path)
    if checkpoints.should_stop():
        checkpoints.leave()
aside = here / f".weights.{rank}"
aside.write_text(model.bits())
aside.rename(here / f"weights.{rank}")
"""
