"""The values of a job from a shell: flags, a job file, and what the caller's own environment adds."""

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from jumar.errors import BadInput
from jumar.spec.names import is_of_machine

_NOT_IN_NAMES = re.compile(r"[^\w.\- ]+|\.\.+")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_GIT_HOST = re.compile(r"[a-z]+://[^/]*|[^/:]+@[^/:]+:")


def spec_values(
    words: Sequence[str],
    environ: Mapping[str, str],
    *,
    file: Path | None = None,
    code: str | None = None,
    env: Sequence[str] = (),
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    distributed: bool = False,
    **fields: Any,
) -> dict[str, Any]:
    """The job file's fields, overridden by the flags; `fields` are flags that are fields of the spec.

    Checks only what can go wrong in a shell; `JobSpec` decides whether the values make a job."""
    values = _from_file(file) if file else {}
    if code is not None or fields.get("workdir") is not None:
        # Either flag overrides both fields of the file.
        values.pop("code", None)
        values.pop("workdir", None)
    values.update({name: value for name, value in fields.items() if is_given(value)})
    if words:
        values["command"] = list(words)
    if "command" not in values:
        raise BadInput(
            "no command given",
            hint="put it after --, as in: jumar run -- python train.py; or give a job file with -f",
        )
    values.setdefault("name", _name_of(values["command"]))
    if distributed:
        values["type"] = "distributed"
        values.setdefault("ranks", "device")
    if code is not None:
        values["code"] = _code(code)
    if "workdir" in values:
        values["workdir"] = str(Path(values["workdir"]).expanduser().absolute())
    for field, given in (("inputs", inputs), ("outputs", outputs)):
        if given:
            values[field] = {**values.get(field, {}), **_places(given, field)}
    if env:
        given = _variables(env, environ)
        values["environment"] = {**values.get("environment", {}), **given}
    return values


def is_given(value: Any) -> bool:
    """Whether the flag was; 0 is a number that somebody gave."""
    return value is not None and value is not False and value != []


def with_local_defaults(
    values: Mapping[str, Any], environ: Mapping[str, str], folder: Path
) -> dict[str, Any]:
    """For a server on this machine: run in `folder` unless told where, with the caller's Python."""
    local = dict(values)
    if local.get("code") is None and local.get("workdir") is None:
        local["workdir"] = str(folder)
    if local.get("image") is not None:
        # Where this machine's programs are means nothing in an image.
        return local
    passed = {name: value for name, value in environ.items() if value and is_of_machine(name)}
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
    if text.startswith("hub://"):
        return text
    if not text.startswith("git+"):
        folder = Path(text).expanduser().absolute()
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist"
            raise BadInput(f"--code: {text} {what}", hint="give a folder, or git+URL@COMMIT")
        return str(folder)
    address = text.removeprefix("git+")
    # The user of ssh://git@HOST/REPO or git@HOST:REPO is no commit.
    path = _GIT_HOST.match(address)
    at = address.rfind("@", path.end() if path else 0)
    if at < 0 or at + 1 == len(address):
        raise BadInput(
            f"--code: {text} has no commit",
            hint="write it like git+https://HOST/REPO@COMMIT, or @BRANCH",
        )
    url, wanted = address[:at], address[at + 1 :]
    return {"git": url, "commit" if _COMMIT.fullmatch(wanted) else "ref": wanted}


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
