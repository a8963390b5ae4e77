"""The platform tried on this machine: a home and a server of its own, many jobs, many faults.

Knows the platform as its users do, through `jumar.Client` and the processes it starts."""
