"""Copies between any two stores: planned from two listings, then carried out in parallel.

A target is never visible half-written, interrupted copies are resumed, sizes and checksums are
verified, and memory is bounded by the number of workers."""

from importlib import import_module
from typing import Any

from jumar.inject.moxing_path.jumar_s3 import checksum

try:
    # Ten times as fast as zlib's own, but not available for every platform.
    _isal: Any = import_module("isal.isal_zlib")
except ImportError:
    _isal = None
if _isal is not None:
    checksum.crc32_of = _isal.crc32
