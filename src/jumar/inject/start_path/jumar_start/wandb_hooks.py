"""Weights & Biases itself, with what its runs log noted for the job's page. Without an account it works
offline, whatever the script asks for."""

import functools
import netrc
import os
from types import ModuleType
from typing import Any, Dict, Optional
from urllib.parse import urlsplit

from jumar_start.axes import Axes
from jumar_start.beside import follow, quietly, say
from jumar_start.run_notes import RunNotes

_KEY = "_jumar_noted"
_KEYS = ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")
_ONLINE = ("online", "shared", "run")
_configured: Dict[int, "_Noted"] = {}
"""By the identity of the run's `config`."""


class _Noted:
    """What is kept of one run."""

    def __init__(self, run: Any) -> None:
        self.axes = Axes()
        self.config = run.config
        self.notes = RunNotes(f"wandb-{run.id}", str(run.name or run.id))
        _configured[id(self.config)] = self


@quietly
def install(module: ModuleType) -> None:
    """`module`: wandb."""
    if "STANDS_IN" in vars(module):
        return
    library: Any = module
    follow(library.Run, "log", _note_log)
    follow(library.Run, "define_metric", _note_axis)
    for method in ("__setitem__", "__setattr__"):
        follow(library.Config, method, _note_parameter)
    for method in ("update", "setdefaults"):
        follow(library.Config, method, _note_parameters)
    library.init = _begun(library, library.init)
    library.login = _logged_in(library, library.login)


def _noted(run: Any) -> Optional[_Noted]:
    if getattr(run, "disabled", False):
        return None
    found = vars(run).get(_KEY)
    if found is None:
        found = vars(run)[_KEY] = _Noted(run)
        found.notes.parameters(dict(run.config.items()))
    return found


def _note_log(run: Any, data: Any, step: Any = None, commit: Any = None, sync: Any = None) -> None:
    noted = _noted(run)
    if noted is not None:
        for at, values in noted.axes.placed(data, step, commit):
            noted.notes.log(values, at)


def _note_axis(run: Any, name: Any, step_metric: Any = None, *_: Any, **__: Any) -> None:
    noted = _noted(run)
    if noted is not None:
        noted.axes.define(name, step_metric)


def _note_parameter(config: Any, name: Any, value: Any) -> None:
    noted = _configured.get(id(config))
    if noted is not None and not str(name).startswith("_"):
        noted.notes.parameter(name, value)


def _note_parameters(config: Any, *_: Any, **__: Any) -> None:
    # What was given may be a file, or a parser's flags; what became of it is a dictionary.
    noted = _configured.get(id(config))
    if noted is not None:
        noted.notes.parameters(dict(config.items()))


def _begun(library: Any, init: Any) -> Any:
    @functools.wraps(init)
    def init_here(*args: Any, **options: Any) -> Any:
        if _wants_online(options) and not has_account():
            options["mode"] = "offline"
            say(
                "wandb works offline: the job has no account (WANDB_API_KEY); its curves are on the page of the job"
            )
        try:
            run = init(*args, **options)
        except library.Error as error:
            if not _wants_online(options):
                raise
            say(
                f"wandb works offline: {type(error).__name__}; its curves are on the page of the job"
            )
            run = init(*args, **{**options, "mode": "offline"})
        quietly(_begin)(run)
        return run

    return init_here


def _begin(run: Any) -> None:
    _noted(run)


def _logged_in(library: Any, login: Any) -> Any:
    @functools.wraps(login)
    def login_here(*args: Any, **options: Any) -> Any:
        if not (args or options.get("key") or has_account()):
            return True
        try:
            return login(*args, **options)
        except library.Error as error:
            say(f"wandb could not sign in: {type(error).__name__}")
            return False

    return login_here


def _wants_online(options: Dict[str, Any]) -> bool:
    settings = options.get("settings")
    told = settings.get("mode") if isinstance(settings, dict) else getattr(settings, "mode", None)
    mode = options.get("mode") or told or os.environ.get("WANDB_MODE") or "online"
    is_off = os.environ.get("WANDB_DISABLED", "").lower() in ("true", "1")
    return mode in _ONLINE and not is_off


def has_account() -> bool:
    """Whether this user can sign in where Weights & Biases is."""
    if any(os.environ.get(name) for name in _KEYS):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").hostname or ""
    try:
        return netrc.netrc().authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False
