"""What a script tracks with Aim, Weights & Biases or SwanLab is noted for the job's page as well.

Where one of them is not installed, a small one takes its place. Every Python of every job runs this first,
so it imports nothing that `site` has not imported already."""

import os
import sys

from jumar_start.resuming import wait_for

_HOOKS = {
    "aim.sdk.run": "aim_hooks",
    "wandb": "wandb_hooks",
    "swanlab": "swanlab_hooks",
    "torch.utils.tensorboard.writer": "board_hooks",
    "tensorboardX.writer": "board_hooks",
    "torch.optim.optimizer": "step_times",
}
_STAND_INS = {
    "aim": "aim_stand_in.py",
    "wandb": "stand_ins/wandb/__init__.py",
    "swanlab": "stand_ins/swanlab.py",
}
AIM_ARGUMENT = "aim_repo"


class _LastResort:
    """Behind all finders: asked for what nobody has."""

    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        """Ours; of Aim, only for a script that is told where its repository is."""
        place = _STAND_INS.get(fullname)
        if place is None or (fullname == "aim" and not _names_a_repository()):
            return None
        import importlib.util

        file = os.path.join(os.path.dirname(__file__), *place.split("/"))
        return importlib.util.spec_from_file_location(fullname, file)


def _names_a_repository() -> bool:
    return any(AIM_ARGUMENT in word for word in getattr(sys, "argv", ()))


def install() -> None:
    """Wait for them, and stand in for them."""
    wait_for(_HOOKS)
    sys.meta_path.append(_LastResort())
