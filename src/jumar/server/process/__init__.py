"""The server as a process: start, listen, connections, stop."""
