"""Tests the platform on this machine: its own home and server, many jobs, many faults.

Uses the platform as its users do, through `jumar.Client` and the command line."""
