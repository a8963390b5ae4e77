"""What a job activates before anything of it runs: conda environments, virtual environments, scripts to
source, modules.

All of these are shell code that changes variables. So a shell runs it, line by line, and prints what its
variables are then; the job gets those. conda itself is not called: an environment says in files what
activating it means, and those are the same for conda, mamba and environments that were packed."""

import json
import os
import shlex
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from jumar.launch.prepare.steps import Step, Steps
from jumar.launch.processes import spawn
from jumar.launch.verdict import SetupFailed

_LIMIT_S = 300.0
_UNKNOWN = "activate-unknown"
_MODULE_WORDS = ("module", "ml")
# Where the `module` of a login shell comes from: Environment Modules and Lmod.
_MODULE_INIT = (
    "$MODULESHOME/init/bash",
    "$LMOD_PKG/init/bash",
    "/etc/profile.d/modules.sh",
    "/etc/profile.d/lmod.sh",
    "/etc/profile.d/z00_lmod.sh",
    "/usr/share/modules/init/bash",
    "/usr/share/lmod/lmod/init/bash",
)
_CONDA_ROOTS = (
    "~/miniconda3",
    "~/anaconda3",
    "~/miniforge3",
    "~/mambaforge",
    "~/micromamba",
    "~/.conda",
    "/opt/conda",
    "/opt/miniconda3",
    "/opt/anaconda3",
    "/opt/miniforge3",
    "/usr/local/miniconda3",
    "/usr/local/anaconda3",
    "/root/miniconda3",
    "/root/anaconda3",
)
_OF_THE_SHELL = frozenset(("_", "SHLVL", "PWD", "OLDPWD", "BASH_ENV"))


def variables_after(
    lines: Tuple[str, ...], environment: Mapping[str, str], folder: str, steps: Steps
) -> Dict[str, str]:
    """The whole environment once everything is activated; raises SetupFailed."""
    before = dict(environment)
    home = before.get("HOME", "/")
    # Scripts ask where the terminal is, or the prompt; neither exists here.
    script = ["set +eu", "PS1=", f"cd {shlex.quote(folder)} || exit"]
    for line in lines:
        script += [f"echo {shlex.quote('activate: ' + line)}", *_code(line, before, folder, home)]
    dump = steps.log + ".variables"
    # The job's own variables may hold secrets.
    script.append(f"(umask 077; env -0 > {shlex.quote(dump)}) || exit")
    bash = spawn.find("bash", before, "/") or "/bin/bash"
    argv = [bash, "--noprofile", "--norc", "-c", "\n".join(script)]
    try:
        steps.run("activate", Step("activation", argv, before, "/", _LIMIT_S))
        with open(dump, "rb") as file:
            found = [os.fsdecode(pair).partition("=") for pair in file.read().split(b"\0") if pair]
    finally:
        if os.path.lexists(dump):
            os.unlink(dump)
    made = {name: value for name, _, value in found if name not in _OF_THE_SHELL or name in before}
    kept = {name: before[name] for name in _OF_THE_SHELL if name in before}
    return {**made, **kept}


def unknown(
    lines: Tuple[str, ...],
    environment: Mapping[str, str],
    folder: str,
    is_there: Callable[[str], bool],
) -> Optional[str]:
    """The first of the names that means nothing here; `is_there`: whether the code will bring such a path."""
    for line in lines:
        try:
            _code(line, environment, folder, environment.get("HOME", "/"))
        except SetupFailed as error:
            name = str(error.values.get("name", ""))
            if error.cause == _UNKNOWN and not is_there(name):
                return name
    return None


def _code(line: str, environment: Mapping[str, str], folder: str, home: str) -> List[str]:
    """The shell code for one line; a failure ends the script with its code."""
    words = line.split()
    if words[0] in _MODULE_WORDS:
        return _module(line)
    if words[:2] in (["conda", "activate"], ["source", "activate"]) or words[0] in ("source", "."):
        line = line.split(None, 2 if words[1:2] == ["activate"] else 1)[-1]
    path = os.path.join(folder, _expanded(line.strip(), home))
    if os.path.isfile(os.path.join(path, "pyvenv.cfg")):
        return [f". {shlex.quote(os.path.join(path, 'bin', 'activate'))} || exit"]
    if os.path.isdir(os.path.join(path, "conda-meta")):
        return list(_conda(os.path.normpath(path), environment))
    if os.path.isfile(path):
        return [f". {shlex.quote(path)} || exit"]
    if "/" not in line:
        found = _conda_named(line.strip(), environment, home)
        if found is not None:
            return list(_conda(found, environment))
    name = line.strip()
    reason = (
        f"nothing named {name} can be activated: no conda environment, no virtual environment and no"
        " script has that name"
    )
    raise SetupFailed(_UNKNOWN, reason, values={"name": name})


def _module(line: str) -> List[str]:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise _broken(f"{line}: {error}") from error
    sources = " ".join(f'"{path}"' for path in _MODULE_INIT)
    command = " ".join(map(shlex.quote, words))
    return [
        f"type module >/dev/null 2>&1 || for f in {sources}; do",
        '  [ -f "$f" ] && . "$f" && type module >/dev/null 2>&1 && break',
        "done",
        'type module >/dev/null 2>&1 || { echo "module: not found on this machine"; exit 127; }',
        f"{command} || exit",
    ]


def _conda_named(name: str, environment: Mapping[str, str], home: str) -> Optional[str]:
    """The environment of this name, as conda looks for it; `base` is the installation itself."""
    for root in _conda_roots(environment, home):
        path = root if name == "base" else os.path.join(root, "envs", name)
        if os.path.isdir(os.path.join(path, "conda-meta")):
            return path
    if name == "base":
        return None
    return next((p for p in _conda_listed(environment, home) if os.path.basename(p) == name), None)


def _conda_roots(environment: Mapping[str, str], home: str) -> Iterator[str]:
    program = environment.get("CONDA_EXE") or spawn.find("conda", dict(environment), "/")
    if program:
        yield os.path.dirname(os.path.dirname(os.path.realpath(program)))
    for variable in ("MAMBA_ROOT_PREFIX", "CONDA_PREFIX"):
        if environment.get(variable):
            yield environment[variable].partition("/envs/")[0]
    for root in _CONDA_ROOTS:
        yield _expanded(root, home)


def _conda_listed(environment: Mapping[str, str], home: str) -> Iterator[str]:
    """Environments elsewhere: in folders that a variable names, and those conda has written down."""
    for variable in ("CONDA_ENVS_DIRS", "CONDA_ENVS_PATH"):
        for folder in filter(None, environment.get(variable, "").split(os.pathsep)):
            if os.path.isdir(folder):
                yield from (os.path.join(folder, name) for name in sorted(os.listdir(folder)))
    try:
        with open(os.path.join(home, ".conda", "environments.txt"), encoding="utf-8") as file:
            yield from (line.strip() for line in file if os.path.isdir(line.strip()))
    except (OSError, UnicodeDecodeError):
        return


def _conda(prefix: str, environment: Mapping[str, str]) -> Iterator[str]:
    """What `conda activate` does, from the files that say it."""
    level = environment.get("CONDA_SHLVL", "")
    named = os.path.basename(os.path.dirname(prefix)) == "envs"
    name = os.path.basename(prefix) if named else prefix
    is_root = os.path.isdir(os.path.join(prefix, "condabin"))
    made = {
        "CONDA_PREFIX": prefix,
        "CONDA_DEFAULT_ENV": "base" if is_root else name,
        "CONDA_SHLVL": str(int(level) + 1 if level.isdigit() else 1),
        **_conda_variables(prefix),
    }
    for variable, value in made.items():
        yield f"export {variable}={shlex.quote(value)}"
    yield f'export PATH={shlex.quote(os.path.join(prefix, "bin"))}:"$PATH"'
    yield "unset VIRTUAL_ENV PYTHONHOME"
    scripts = os.path.join(prefix, "etc", "conda", "activate.d")
    for script in sorted(os.listdir(scripts)) if os.path.isdir(scripts) else ():
        if script.endswith(".sh"):
            yield f". {shlex.quote(os.path.join(scripts, script))}"


def _conda_variables(prefix: str) -> Dict[str, str]:
    """What `conda env config vars set` and packages have put there."""
    found: Dict[str, str] = {}
    folder = os.path.join(prefix, "etc", "conda", "env_vars.d")
    files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for path in (*(os.path.join(folder, name) for name in files), _state_file(prefix)):
        try:
            with open(path, encoding="utf-8") as file:
                values = json.load(file)
            values = values["env_vars"] if path == _state_file(prefix) else values
            found.update({str(name): str(value) for name, value in values.items()})
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise _broken(f"{path}: {error}") from error
    return {name: value for name, value in found.items() if name.isidentifier()}


def _broken(words: str) -> SetupFailed:
    reason = f"the environment could not be activated: {words}"
    return SetupFailed("activate", reason, values={"error": words})


def _state_file(prefix: str) -> str:
    return os.path.join(prefix, "conda-meta", "state")


def _expanded(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path
