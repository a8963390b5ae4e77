"""What a site asks of Slurm in the name of a user: run by root's program as that user.

`--slurm-as DIR --attempt N --descriptors COUNT`, with the stream to the server as descriptor 3, what it
tells as 4 (JSON) and the archive of the code as 5. The server is told what Slurm's program said."""

import json
import os
import shutil
import subprocess
import sys
from typing import Any, Dict, List, Sequence

from jumar.launch.jobdir.files import JobDir, is_plain, make_folders
from jumar.launch.jobdir.job import ask_to_stop
from jumar.launch.jobdir.trouble import trouble_with
from jumar.launch.node.kept import write_told

_STREAM, _TOLD, _ARCHIVE = 3, 4, 5
_PROGRAMS = ("sbatch", "scancel")
_LIMIT_S = 30.0
_MOST_SAID = 4000


def main(arguments: Sequence[str]) -> int:
    """Write what is to be written, then run one of Slurm's programs."""
    _, root, _, number, _, count = arguments
    for descriptor in range(_STREAM, _STREAM + int(count)):
        os.set_inheritable(descriptor, False)
    directory = JobDir(root, int(number))
    with os.fdopen(_TOLD, "rb") as file:
        told: Dict[str, Any] = json.loads(file.read().decode("utf-8"))
    try:
        _write(directory, told, has_archive=int(count) > _ARCHIVE - _STREAM)
    except OSError as error:
        answer: Dict[str, Any] = {"trouble": list(trouble_with(error, root))}
    else:
        answer = _run(told["run"], told["input"]) if told["run"] else {"code": 0}
    try:
        os.write(_STREAM, json.dumps(answer).encode())
    except OSError as error:
        # The server has given up, or is gone: the queue tells the next one.
        sys.stderr.write(f"the server does not listen: {error}\n")
        return 1
    return 0


def _write(directory: JobDir, told: Dict[str, Any], *, has_archive: bool) -> None:
    if told["files"] is not None:
        make_folders(directory)
        if has_archive:
            archive = os.path.join(directory.attempt, "code.tar")
            with os.fdopen(_ARCHIVE, "rb") as source, open(archive, "wb") as copy:
                shutil.copyfileobj(source, copy)
            told["files"]["request"]["archive"] = archive
        write_told(directory, told["files"])
        os.makedirs(directory.path("logs"), exist_ok=True)
    if told["stop"] is not None and is_plain(directory):
        ask_to_stop(directory, told["stop"])


def _run(words: List[str], text: str) -> Dict[str, Any]:
    if words[0] not in _PROGRAMS:
        raise ValueError(words[0])
    try:
        done = subprocess.run(
            words,
            input=text.encode(),
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except FileNotFoundError:
        return {"missing": words[0]}
    except subprocess.TimeoutExpired:
        return {"late": words[0]}
    said = [out.decode("utf-8", "replace")[:_MOST_SAID] for out in (done.stdout, done.stderr)]
    return {"code": done.returncode, "out": said[0], "err": said[1]}
