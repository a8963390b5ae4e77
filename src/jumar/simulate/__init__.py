"""The scheduler tried on a workload before it is used: traces in, waiting times and plots out."""
