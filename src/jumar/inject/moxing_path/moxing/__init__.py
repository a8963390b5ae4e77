"""`moxing` for jobs: `mox.file` on `obs://`, `s3://` and local paths.

Written for scripts that import ModelArts' module of this name. Only `mox.file` is here: the rest of
that module trains models with TensorFlow 1. Standard library only, Python 3.8 and later."""

from . import file

__all__ = ["file"]
