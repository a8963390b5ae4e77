"""Faults at chosen moments of a training in forked children, many of which share one import of the libraries."""

import os
import resource
import signal
import socket
import sys
import traceback


class Faults:
    """Each is the count of forward passes in training, or of saves by torch, in this process:
    asked to stop, killed, from then on no room for files, killed in the middle of a save."""

    stop_at = 0
    kill_at = 0
    full_at = 0
    kill_saving = 0
    seen = 0
    saves = 0

    @classmethod
    def step(cls):
        cls.seen += 1
        if cls.seen == cls.stop_at and os.environ.get("RANK", "0") == "0":
            open(os.environ["JUMAR_STOP_FILE"], "w").close()
        if cls.seen == cls.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if cls.seen == cls.full_at:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

    @classmethod
    def plant(cls, faults):
        for name, value in faults.items():
            setattr(cls, name, value)
        import torch

        save = torch.serialization._save

        def counted(*args, **options):
            save(*args, **options)
            cls.saves += 1
            if cls.saves == cls.kill_saving:
                # The list of what is in the file is not written yet.
                os.kill(os.getpid(), signal.SIGKILL)

        torch.serialization._save = counted


# Until the process is gone: whoever takes down gloo's group of processes joins a thread of its that may be waiting for
# the lock of the interpreter, and holds that lock.
_KEPT = []


def segment(train, faults, ranks=1):
    """The exit codes of `train()` in children, one per rank."""
    stop_file = os.environ["JUMAR_STOP_FILE"]
    if os.path.exists(stop_file):
        os.unlink(stop_file)
    sys.stdout.flush()
    port = _free_port() if ranks > 1 else 0
    children = [_child(train, faults, rank, ranks, port) for rank in range(ranks)]
    return [_code(os.waitpid(child, 0)[1]) for child in children]


def _child(train, faults, rank, ranks, port):
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        if ranks > 1:
            os.environ.update(
                RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks),
                MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
            )  # fmt: skip
        Faults.plant(faults)
        _KEPT.append(train())
        code = 0
    except SystemExit as left:
        _KEPT.append(left)
        code = left.code
    except BaseException:  # noqa: BLE001  the child ends here in any case
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _code(status):
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)


def _free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def digest(model):
    import hashlib

    found = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        found.update(name.encode() + value.detach().cpu().numpy().tobytes())
    return found.hexdigest()
