"""`import moxing.mxnet as mox`: its `mox.file`; the rest trains models on ModelArts only."""

from functools import partial

from . import file
from .files_only import refuse

__getattr__ = partial(refuse, __name__)
__all__ = ["file"]
