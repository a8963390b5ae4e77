"""Lightning chooses among the accelerators that it knows, and an NPU is none of them: `accelerator="auto"`
trains on the CPU, here and on a real machine. It does so in silence; here it is told."""

import functools
import inspect
import logging
from types import ModuleType
from typing import Any

logger = logging.getLogger("torch_npu")
_CHOICE = "_choose_auto_accelerator"


@functools.lru_cache(maxsize=None)
def _tell() -> None:
    logger.warning(
        "Lightning has no accelerator for NPUs: with accelerator='auto' this run uses the CPU, and would "
        "on a machine with real NPUs too. Pass an accelerator and a strategy for NPUs to the Trainer, or "
        "show the NPUs to it as CUDA devices: import torch_npu.contrib.transfer_to_npu first and set "
        "TORCH_NPU_DEVICE_CAPABILITY=8.0"
    )


def _watch(connector: Any) -> None:
    choose = getattr(connector, _CHOICE)
    is_static = isinstance(inspect.getattr_static(connector, _CHOICE), staticmethod)

    @functools.wraps(choose)
    def told(*args: Any) -> Any:
        chosen = choose(*args)
        if chosen == "cpu":
            _tell()
        return chosen

    setattr(connector, _CHOICE, staticmethod(told) if is_static else told)


def prepare(module: ModuleType) -> None:
    """Watch what Lightning chooses."""
    for name in ("_AcceleratorConnector", "AcceleratorConnector", "_Connector"):
        connector = getattr(module, name, None)
        if hasattr(connector, _CHOICE):
            _watch(connector)


ON_IMPORT = {
    f"{package}.{module}": prepare
    for package, module in (
        ("lightning", "fabric.connector"),
        ("lightning", "pytorch.trainer.connectors.accelerator_connector"),
        ("lightning_fabric", "connector"),
        ("pytorch_lightning", "trainer.connectors.accelerator_connector"),
    )
}
