"""Jobs with an image: their ranks run in apptainer on the nodes."""

import shutil
from typing import Any

from jumar.engine.local.containers import ascend_paths, refuse_python
from jumar.errors import SubmitRefused
from jumar.launch.processes.container import APPTAINERS
from jumar.spec.devices import DeviceKind
from jumar.spec.job import JobSpec

UNTRIED = "images on Slurm run in apptainer, which has not been tried on a real cluster yet"


def request(spec: JobSpec) -> dict[str, Any] | None:
    """What the launchers are told, as JSON values; None for a job without an image. SubmitRefused."""
    if spec.image is None:
        return None
    refuse_python(spec)
    if spec.image.startswith("-"):
        raise SubmitRefused(f"{spec.image!r} is not the name of an image")
    is_file = spec.image.startswith("/")
    image = spec.image if is_file or "://" in spec.image else f"docker://{spec.image}"
    return {"program": _program(), "image": image, "options": _options(spec.device.kind)}


def check(container: dict[str, Any]) -> None:
    """Refuse what the cluster cannot run, as far as this machine, one of its own, tells."""
    if shutil.which(str(container["program"])) is None:
        raise SubmitRefused(
            f"image: this cluster has no {' or '.join(APPTAINERS)}",
            hint="leave image out, or have apptainer installed on the login node and all others; with pyxis "
            "start the container in the command",
        )


def _program() -> str:
    """By name: each node looks for its own."""
    return next((name for name in APPTAINERS if shutil.which(name)), APPTAINERS[0])


def _options(kind: DeviceKind) -> list[str]:
    if kind is DeviceKind.GPU:
        return ["--nv"]
    if kind is not DeviceKind.NPU:
        return []
    return [f"--bind={path}:{path}:ro" for path in ascend_paths("mount")]
