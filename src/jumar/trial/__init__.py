"""A script run here and now on simulated NPUs: to try it, or to prove a port of it."""
