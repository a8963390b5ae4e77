"""What jumar does in a job's process before the script's first line. Standard library and the user's
torch, Python 3.7 and later."""
