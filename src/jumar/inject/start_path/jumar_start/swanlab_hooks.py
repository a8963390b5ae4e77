"""SwanLab itself, with what its runs log noted for the job's page. Without an account it works offline,
whatever the script asks for."""

import functools
import os
from types import ModuleType
from typing import Any, Dict, Optional

from jumar_start.beside import follow, quietly, say
from jumar_start.run_notes import RunNotes

_ONLINE = ("cloud", "online")
_WITH_ACCOUNT = ("resume", "id")
"""Options that are refused offline by some versions."""


class _Current:
    """The run that is open: there is one at a time."""

    notes: Optional[RunNotes] = None
    step = -1
    config: Optional[type] = None
    """The class of its configuration, once that is followed; what the module offers may be a proxy."""


@quietly
def install(module: ModuleType) -> None:
    """`module`: swanlab."""
    if "STANDS_IN" in vars(module):
        return
    library: Any = module
    run = library.Run
    # Asynchronous logging does not come through `log`.
    follow(run, "_log_impl" if hasattr(run, "_log_impl") else "log", _note_log)
    library.init = _begun(library.init)
    library.login = _logged_in(library.login)
    library.get_run = _or_none(library.get_run)


def _note_log(run: Any, data: Any, step: Any = None, **_: Any) -> None:
    if getattr(run, "mode", "") == "disabled":
        return
    if _Current.notes is None:
        _begin(run, {})
    _Current.step = int(step) if step is not None else _Current.step + 1
    if _Current.notes is not None:
        _Current.notes.log(data, _Current.step)


def _note_parameter(_config: Any, name: Any, value: Any) -> None:
    if _Current.notes is not None and not str(name).startswith("_"):
        _Current.notes.parameter(name, value)


def _note_parameters(_config: Any, values: Any = None, **named: Any) -> None:
    if _Current.notes is not None:
        # What was given: in some versions the object that was told keeps nothing itself.
        _Current.notes.parameters({} if values is None else values)
        _Current.notes.parameters(named)


def _begin(run: Any, options: Dict[str, Any]) -> None:
    if getattr(run, "mode", "") == "disabled":
        _Current.notes = None
        return
    public = getattr(run, "public", None)
    own_id = options.get("id") or getattr(run, "id", None) or getattr(public, "run_id", None)
    name = options.get("experiment_name") or options.get("name") or getattr(run, "name", None)
    _Current.notes = RunNotes(f"swanlab-{own_id or os.getpid()}", str(name or own_id or ""))
    _Current.step = -1
    _Current.notes.parameters(dict(run.config))
    if _Current.config is not type(run.config):
        _Current.config = type(run.config)
        for method in ("__setitem__", "set"):
            follow(_Current.config, method, _note_parameter)
        follow(_Current.config, "update", _note_parameters)


def _begun(init: Any) -> Any:
    @functools.wraps(init)
    def init_here(*args: Any, **options: Any) -> Any:
        mode = options.get("mode") or os.environ.get("SWANLAB_MODE") or "cloud"
        given = dict(options)
        if mode in _ONLINE and not os.environ.get("SWANLAB_API_KEY"):
            options = {name: one for name, one in options.items() if name not in _WITH_ACCOUNT}
            options["mode"] = "offline"
            say(
                "swanlab works offline: the job has no account (SWANLAB_API_KEY); its curves are on the page of the job"
            )
        run = init(*args, **options)
        quietly(_begin)(run, given)
        return run

    return init_here


def _logged_in(login: Any) -> Any:
    @functools.wraps(login)
    def login_here(*args: Any, **options: Any) -> Any:
        if not (args or options.get("api_key") or os.environ.get("SWANLAB_API_KEY")):
            # It would ask at the terminal, or fail.
            return None
        return login(*args, **options)

    return login_here


def _or_none(get_run: Any) -> Any:
    """transformers and older scripts expect None before `init`, some versions raise."""

    @functools.wraps(get_run)
    def get_run_or_none() -> Any:
        try:
            return get_run()
        except RuntimeError:
            return None

    return get_run_or_none
