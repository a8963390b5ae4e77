"""Staging around a job on one node: inputs before its ranks start, results while they run and after.

A process of its own, run by the platform's Python beside the launcher: `python -m
jumar.store.staging bring|keep|send PLAN`. What is to be done stands in the plan, how far it is in the
plan's status file."""
