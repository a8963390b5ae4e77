"""`moxing` for jobs: `mox.file` on `obs://`, `s3://` and local paths.

For scripts that import ModelArts' module of this name, also as `moxing.framework`. Only `mox.file`
exists here: the rest of that module trains models with TensorFlow 1. Standard library only, Python
3.7 and later.

Every job has this folder on its PYTHONPATH, which Python searches before installed packages: if the
job's own Python has a `moxing`, that one is imported instead."""

import importlib.machinery
import importlib.util
import os
import sys


def _installed() -> bool:
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("moxing", path)
    # A plain folder of this name has no origin.
    if spec is None or spec.loader is None or spec.origin is None:
        return False
    module = importlib.util.module_from_spec(spec)
    # Whoever imports `moxing` gets what is here after this file has run.
    sys.modules[__name__] = module
    spec.loader.exec_module(module)
    return True


if not _installed():
    from functools import partial

    from . import file, framework
    from .files_only import refuse

    __getattr__ = partial(refuse, __name__)
    __all__ = ["file", "framework"]
