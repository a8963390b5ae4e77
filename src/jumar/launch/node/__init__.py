"""The node program: an attempt of a job, or a command line, from start to verdict."""
