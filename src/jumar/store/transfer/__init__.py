"""Copies between any two stores: planned from two listings, then carried out in parallel.

A target is never visible half-written, interrupted copies are resumed, sizes and checksums are
verified, and memory is bounded by the number of workers."""
