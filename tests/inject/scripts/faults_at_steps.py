"""Faults at chosen steps of a training in a forked child, many of which share one import of the libraries."""

import os
import signal
import sys
import traceback


class Faults:
    """STOP_AT and KILL_AT: the count of forward passes in training, in this process."""

    stop_at = 0
    kill_at = 0
    seen = 0

    @classmethod
    def step(cls):
        cls.seen += 1
        if cls.seen == cls.stop_at:
            open(os.environ["JUMAR_STOP_FILE"], "w").close()
        if cls.seen == cls.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def segment(train, stop_at=0, kill_at=0):
    """The exit code of `train()` in a child."""
    stop_file = os.environ["JUMAR_STOP_FILE"]
    if os.path.exists(stop_file):
        os.unlink(stop_file)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        Faults.seen, Faults.stop_at, Faults.kill_at = 0, stop_at, kill_at
        code = 1
        try:
            train()
            code = 0
        except SystemExit as left:
            code = left.code
        except BaseException:  # noqa: BLE001  the child ends here in any case
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(code)
    return (
        os.WEXITSTATUS(status)
        if os.WIFEXITED(status := os.waitpid(child, 0)[1])
        else -os.WTERMSIG(status)
    )


def digest(model):
    import hashlib

    found = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        found.update(name.encode() + value.detach().cpu().numpy().tobytes())
    return found.hexdigest()
