"""What jumar does in a process of a job before the script's own first line. Standard library and the
user's torch, Python 3.8 and later."""
