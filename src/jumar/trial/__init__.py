"""A script run immediately on simulated NPUs: to try it, or to prove its port."""
