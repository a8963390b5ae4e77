"""Inside the job, on every node: ranks and their supervision. Standard library, Python 3.7+."""
