"""Staging for a job on one node: inputs before its ranks start, results while they run and after.

A separate process, run by the platform's Python beside the launcher: `python -m jumar.store.staging
bring|keep|send PLAN`. The plan says what to do; its status file shows the progress."""
