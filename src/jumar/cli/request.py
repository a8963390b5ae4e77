"""The flags of `jumar run` as the values of a job spec. Checks only what can go wrong in a shell;
`JobSpec` decides whether the values make a job."""

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from jumar.errors import BadInput

_PASSED_ON = (
    "PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
)
_NOT_IN_NAMES = re.compile(r"[^\w.\- ]+|\.\.+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What was given on the command line; None or empty if not given."""

    file: Path | None = None
    command: Sequence[str] = ()
    code: str | None = None
    environment: Sequence[str] = ()
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    distributed: bool = False
    fields: Mapping[str, Any]
    """Flags that are fields of the spec."""


def spec_values(flags: Flags, environ: Mapping[str, str]) -> dict[str, Any]:
    """The job file's fields, overridden by the flags."""
    values = _from_file(flags.file) if flags.file else {}
    if flags.code is not None or flags.fields.get("workdir") is not None:
        # Either flag overrides both fields of the file.
        values.pop("code", None)
        values.pop("workdir", None)
    values.update({name: value for name, value in flags.fields.items() if value not in (None, ())})
    if flags.command:
        values["command"] = list(flags.command)
    if "command" not in values:
        raise BadInput(
            "no command given",
            hint="put it after --, as in: jumar run -- python train.py; or give a job file with -f",
        )
    values.setdefault("name", _name_of(values["command"]))
    if flags.distributed:
        values["type"] = "distributed"
        values.setdefault("ranks", "device")
    if flags.code is not None:
        values["code"] = _code(flags.code)
    if "workdir" in values:
        values["workdir"] = str(Path(values["workdir"]).expanduser().absolute())
    for field, given in (("inputs", flags.inputs), ("outputs", flags.outputs)):
        if given:
            values[field] = {**values.get(field, {}), **_places(given, field)}
    if flags.environment:
        given = _variables(flags.environment, environ)
        values["environment"] = {**values.get("environment", {}), **given}
    return values


def with_local_defaults(
    values: Mapping[str, Any], environ: Mapping[str, str], folder: Path
) -> dict[str, Any]:
    """For a server on this machine: run in `folder` unless told where, with the caller's Python."""
    local = dict(values)
    if local.get("code") is None and local.get("workdir") is None:
        local["workdir"] = str(folder)
    passed = {
        name: value
        for name, value in environ.items()
        if value and (name in _PASSED_ON or name.startswith("ASCEND_"))
    }
    # `jumar` may have been called by its path, from an environment that is not active: then
    # "python" should at least mean the one jumar runs with.
    own = os.path.dirname(sys.executable)
    if own not in passed.get("PATH", "").split(os.pathsep):
        passed["PATH"] = os.pathsep.join(filter(None, (passed.get("PATH"), own)))
    local["environment"] = {**passed, **local.get("environment", {})}
    return local


def _from_file(path: Path) -> dict[str, Any]:
    from jumar.spec.document import read_spec_file

    return read_spec_file(path).dump()


def _name_of(command: str | Sequence[str]) -> str:
    """The script's name, else the program's."""
    words = command.split() if isinstance(command, str) else command
    scripts = (word for word in words if word.endswith((".py", ".sh")))
    name = PurePath(next(scripts, words[0] if words else "job")).name
    cleaned = _NOT_IN_NAMES.sub("-", name.removesuffix(".py").removesuffix(".sh")).strip("-_. ")
    return cleaned[:128] or "job"


def _code(text: str) -> str | dict[str, str]:
    if not text.startswith("git+"):
        folder = Path(text).expanduser().absolute()
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist"
            raise BadInput(f"--code: {text} {what}", hint="give a folder, or git+URL@COMMIT")
        return str(folder)
    url, at, commit = text.removeprefix("git+").rpartition("@")
    if not at or "/" in commit:
        raise BadInput(
            f"--code: {text} has no commit", hint="write it like git+https://HOST/REPO@COMMIT"
        )
    return {"git": url, "commit": commit}


def _places(given: Iterable[str], field: str) -> dict[str, str]:
    places: dict[str, str] = {}
    for text in given:
        name, is_pair, url = text.partition("=")
        if not is_pair:
            raise BadInput(
                f"--{field[:-1]}: {text!r} is not NAME=URL",
                hint="for example data_url=/data/digits",
            )
        places[name] = url
    return places


def _variables(given: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for text in given:
        name, is_pair, value = text.partition("=")
        if not is_pair and name not in environ:
            raise BadInput(
                f"--env: {name} is not set in your environment",
                hint=f"give it a value: --env {name}=…",
            )
        variables[name] = value if is_pair else environ[name]
    return variables
