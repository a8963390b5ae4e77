"""What ModelArts is asked for a job: flavor, places in OBS, the body of the create."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.engine.modelarts import boot
from jumar.errors import SubmitRefused
from jumar.modelarts.service import dig
from jumar.spec.devices import DeviceKind
from jumar.spec.fields import ArchivedCode
from jumar.spec.job import JobSpec
from jumar.spec.names import is_of_machine
from jumar.spec.urls import is_remote

BOOT_FILE = "jumar_modelarts_boot.py"
_HOUR_S = 3600
# Cards by what flavors call them; where there are no simulated ones, real ones do.
_CARDS = {DeviceKind.GPU: "gpu", DeviceKind.NPU: "npu", DeviceKind.SIM: "npu"}


@dataclass(frozen=True, slots=True)
class Places:
    """Where in the account's bucket things of a job are."""

    bucket: str
    job_id: str

    @property
    def results(self) -> str:
        """What the job writes for folders of this machine."""
        return f"obs://{self.bucket}/jumar/jobs/{self.job_id}/out/"

    def code(self, archive: Path | None) -> str:
        """The code: named by its content, so that the same is sent once."""
        script = hashlib.sha256(boot_text().encode()).hexdigest()[:12]
        name = "none" if archive is None else archive.stem
        return f"obs://{self.bucket}/jumar/code/{name}-{script}/code/"

    def input(self, path: str) -> str:
        """A folder of this machine."""
        name = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:20]
        return f"obs://{self.bucket}/jumar/inputs/{name}/"


def boot_text() -> str:
    """The program that runs the command there."""
    return Path(boot.__file__).read_text("utf-8")


def job_name(job_id: str, number: int) -> str:
    """What an attempt is called there: it is found by that when an answer was lost."""
    return f"jumar-{job_id}-{number}"


def refuse(spec: JobSpec) -> None:
    """SubmitRefused for what cannot be done there."""
    wrong = {
        "workdir": spec.workdir is not None,
        "code": spec.code is not None and not isinstance(spec.code, ArchivedCode),
        "activate": bool(spec.activate),
    }
    for field, is_wrong in wrong.items():
        if is_wrong:
            raise SubmitRefused(
                f"{field}: ModelArts does not see this machine's folders and repositories",
                hint="send the code along: jumar run --code FOLDER",
            )
    if spec.image is not None:
        raise SubmitRefused(
            f"image: jobs on ModelArts run in its own images, not in {spec.image}",
            hint="leave image out; bring packages with requirements",
        )
    if spec.ckpt is not None and not is_remote(spec.ckpt):
        raise SubmitRefused(
            f"ckpt: {spec.ckpt} is on this machine", hint="give an obs:// address of the account"
        )


def choose_flavor(spec: JobSpec, flavors: list[Any]) -> str:
    """A flavor with the cards that the job asks for, a free one before others."""
    kind = _CARDS.get(spec.device.kind)
    fits = [
        str(dig(one, "flavor_id"))
        for one in flavors
        if dig(one, "flavor_id") and _fits(dig(one, "flavor_info"), kind, spec.device.count)
    ]
    if not fits:
        raise SubmitRefused(
            f"device: no flavor of this account has {spec.device}",
            hint="see what there is: jumar modelarts flavors",
        )
    return min(fits, key=lambda name: not is_free(name))


def is_free(flavor: str) -> bool:
    """Whether it costs nothing, and ends after an hour."""
    return flavor.endswith(".free")


def _fits(info: Any, kind: str | None, count: int) -> bool:
    units = {name: dig(info, name, "unit_num") for name in ("gpu", "npu")}
    if kind is None:
        return not any(units.values())
    # The SDK has it as a number for GPUs and as text for NPUs.
    return str(units[kind]) == str(count)


def training_job(
    spec: JobSpec,
    *,
    name: str,
    flavor: str,
    code: str,
    places: Places,
    resumes: bool,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """The body of the create. `resumes`: there are checkpoints to begin with."""
    inputs = {key: url if is_remote(url) else places.input(url) for key, url in spec.inputs.items()}
    outputs = {
        key: url if is_remote(url) else f"{places.results}{key}/"
        for key, url in spec.outputs.items()
    }
    if spec.ckpt is not None:
        outputs[boot.CKPT] = spec.ckpt
        if resumes:
            inputs[boot.BEFORE] = spec.ckpt
    own = {"JUMAR_COMMAND": json.dumps(spec.command)}
    if spec.requirements is not None:
        own["JUMAR_REQUIREMENTS"] = spec.requirements
    wanted: dict[str, Any] = {"resource": {"flavor_id": flavor, "node_count": spec.nodes}}
    if spec.time_limit is not None:
        # Whole hours: our own clock ends it sooner, this one when we are away.
        hours = -(-(spec.time_limit + spec.grace) // _HOUR_S)
        wanted["auto_stop"] = {"time_unit": "HOURS", "duration": min(hours, 720)}
    return {
        "kind": "job",
        "metadata": {
            "name": name,
            "description": f"{spec.name}, by jumar"[:256],
            "annotations": {"jumar/job": name},
        },
        "algorithm": {
            "code_dir": code,
            "boot_file": f"{code}{BOOT_FILE}",
            "inputs": [_channel(*pair) for pair in inputs.items()],
            "outputs": [_channel(*pair) for pair in outputs.items()],
            "environments": {**_elsewhere(environment), **own},
        },
        "spec": wanted,
    }


def _elsewhere(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what says where this machine has its programs; `jumar run` passes that on."""
    return {
        name: value
        for name, value in environment.items()
        if not is_of_machine(name) or not any(part[:1] == "/" for part in value.split(":"))
    }


def _channel(name: str, url: str) -> dict[str, Any]:
    folder = url if url.endswith("/") else f"{url}/"
    return {"name": name, "access_method": "parameter", "remote": {"obs": {"obs_url": folder}}}
