"""The image of an attempt: loaded from its file if it came as one, and asked for its variables."""

import json
import os
import re
import subprocess
from typing import Dict, List, Tuple, cast

from jumar.launch.prepare.steps import Step, Steps
from jumar.launch.processes.container import Container, Wrapping, variables_of
from jumar.launch.verdict import SetupFailed

_LOAD_LIMIT_S = 3600.0
_ASK_LIMIT_S = 60.0
_LOADED = re.compile(r"Loaded image(?:\(s\))?(?: ID)?: (\S+)")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def ready(
    container: Container, steps: Steps, variables: Dict[str, str]
) -> Tuple[Container, Dict[str, str]]:
    """The container with an image that is here, and the image's variables; raises SetupFailed."""
    if container.is_apptainer:
        # It brings images by itself, and sets their variables inside.
        return container, {"PATH": _DEFAULT_PATH}
    if container.image.startswith("/"):
        container = container._replace(image=_loaded(container, steps, variables))
    told = _asked(container, ["image", "inspect", container.image])
    try:
        config = cast("Dict[str, List[str]]", json.loads(told)[0].get("Config") or {})
        words = config.get("Env") or []
    except (ValueError, LookupError, AttributeError) as error:
        raise _unusable(container.image, f"{container.program} gave no description") from error
    return container, {"PATH": _DEFAULT_PATH, **variables_of(words)}


def remove(wrapping: Wrapping, ranks: List[int]) -> None:
    """Nothing of the ranks' containers is left, however they ended."""
    container, names = wrapping.container, [wrapping.name_of(rank) for rank in ranks]
    if container.is_apptainer:
        return
    forced = ["rm", "--force", *(["--ignore"] if container.is_podman else []), *names]
    try:
        _asked(container, forced)
    except SetupFailed:
        # docker says so of one that has removed itself; processes are ended by the launcher.
        return


def _loaded(container: Container, steps: Steps, variables: Dict[str, str]) -> str:
    start = os.path.getsize(steps.log) if os.path.exists(steps.log) else 0
    argv = [container.program, "load", "--input", container.image]
    steps.run("image", Step("loading", argv, variables, "/", _LOAD_LIMIT_S))
    with open(steps.log, encoding="utf-8", errors="replace") as log:
        log.seek(start)
        found = _LOADED.findall(log.read())
    if not found:
        raise _unusable(container.image, "the file has no image")
    return found[-1]


def _asked(container: Container, words: List[str]) -> str:
    try:
        done = subprocess.run(
            [container.program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unusable(container.image, str(error)) from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _unusable(container.image, said[-1] if said else f"exit code {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def _unusable(image: str, words: str) -> SetupFailed:
    error = f"{image}: {words}"
    return SetupFailed("image", f"the image could not be used: {error}", values={"error": error})
