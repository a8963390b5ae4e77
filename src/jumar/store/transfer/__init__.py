"""Copies from any side to any side: planned from two listings, then carried out in parallel.

A target is never seen half-written; what was cut is taken up again; sizes and checksums are
compared; memory stays bounded by the number of workers."""
