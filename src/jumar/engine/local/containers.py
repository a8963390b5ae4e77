"""Containers of this machine: which program runs them, what images it has, and the cards they get."""

import csv
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jumar.errors import SubmitRefused
from jumar.spec.devices import DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.records import ImageRecord

PROGRAMS = ("podman", "docker")
_LIMIT_S = 20.0
_FORMAT = "{{.Repository}}:{{.Tag}}\t{{.Size}}"
_CDI_FOLDERS = ("etc/cdi", "var/run/cdi")
_TABLE = Path(__file__).with_name("ascend_in_containers.tsv")


class Containers:
    """The programs for containers that this machine has; each question is asked anew."""

    def __init__(self, root: Path = Path("/")) -> None:
        """`root`: where devices and drivers are."""
        self._root = root

    def images(self) -> tuple[ImageRecord, ...]:
        """All that jobs may name."""
        found: list[ImageRecord] = []
        for program in _programs():
            listed = _ask([program, "images", "--format", _FORMAT])
            found += [_image(line, program) for line in (listed or "").splitlines()]
        named = [image for image in found if "<none>" not in image.name]
        return tuple(sorted(named, key=lambda image: (image.name, image.program)))

    def check(self, spec: JobSpec) -> None:
        """Refuse a job whose image cannot be run here."""
        refuse_python(spec)
        self._options(spec.device.kind, range(spec.device.count), self._program_for(spec))

    def request(self, spec: JobSpec, cards: Sequence[int]) -> dict[str, Any]:
        """What the launcher is told of a job's image, as JSON values."""
        program = self._program_for(spec)
        options = self._options(spec.device.kind, cards, program)
        return {"program": program, "image": spec.image, "options": options}

    def _program_for(self, spec: JobSpec) -> str:
        image = spec.image or ""
        programs = _programs()
        if not programs:
            raise SubmitRefused(
                f"the image {image} cannot be used: this machine has neither podman nor docker",
                hint="install podman, or leave image out to run without a container",
            )
        if image.startswith("-"):
            raise SubmitRefused(f"{image!r} is not the name of an image")
        if image.startswith("/"):
            if not os.path.isfile(image):
                raise SubmitRefused(f"the image file {image} does not exist on this machine")
            return programs[0]
        for program in programs:
            if _ask([program, "image", "inspect", "--format", "{{.Id}}", image]):
                return program
        name = os.path.basename(programs[0])
        raise SubmitRefused(
            f"the image {image} does not exist on this machine",
            hint=f"see: jumar images; bring it with: {name} pull {image}, or {name} load -i FILE",
        )

    def _options(self, kind: DeviceKind, cards: Sequence[int], program: str) -> list[str]:
        if kind is DeviceKind.GPU:
            return self._gpu_options(cards, program)
        if kind is not DeviceKind.NPU:
            return []
        own = [f"/dev/davinci{card}" for card in cards]
        devices, mounts = [*own, *ascend_paths("device")], ascend_paths("mount")
        return [f"--device={path}" for path in self._here(devices)] + [
            f"--volume={path}:{path}:ro" for path in self._here(mounts)
        ]

    def _gpu_options(self, cards: Sequence[int], program: str) -> list[str]:
        if os.path.basename(program) == "docker":
            return [f'--gpus="device={",".join(map(str, cards))}"']
        if not any((self._root / folder).is_dir() for folder in _CDI_FOLDERS):
            raise SubmitRefused(
                "podman does not know the GPUs of this machine",
                hint="tell it with: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
            )
        return [f"--device=nvidia.com/gpu={card}" for card in cards]

    def _here(self, paths: Iterable[str]) -> list[str]:
        return [path for path in paths if os.path.lexists(self._root / path.lstrip("/"))]


def refuse_python(spec: JobSpec) -> None:
    """A job in an image has the image's Python."""
    if spec.requirements is not None or spec.activations:
        field = "requirements" if spec.requirements is not None else "activate"
        raise SubmitRefused(
            f"{field} is for the Python of this machine, but the job has an image",
            hint="put packages into the image, or install them in the command: pip install …",
        )


def ascend_paths(kind: str) -> list[str]:
    """What a container with NPUs needs of its machine: each `device`, or each `mount`."""
    with _TABLE.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return [row["path"] for row in rows if row["kind"] == kind]


def _programs() -> list[str]:
    return [path for name in PROGRAMS if (path := shutil.which(name)) is not None]


def _ask(argv: list[str]) -> str | None:
    """What a program says; None when it fails, as docker does without its daemon."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _image(line: str, program: str) -> ImageRecord:
    name, _, size = line.partition("\t")
    program = os.path.basename(program)
    return ImageRecord(name=name.removeprefix("localhost/"), size=size, program=program)
