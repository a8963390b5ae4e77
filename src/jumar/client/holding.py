"""A job that holds its cards for a shell, and for no longer: it waits for one to come, then for it to go.

The program runs in whatever Python the job has, so it is handed over as text. The other end of its
pipe is in the hands of the process that runs the shell, so whoever is killed, the job ends."""

from collections.abc import Sequence

_WAIT_FOR_SHELL = """\
import os, select, sys
folder = os.environ["JUMAR_JOB_DIR"]
if not os.access(folder, os.W_OK):
    # In a container.
    folder = os.path.join(folder, "home")
path = os.path.join(folder, "shell.fifo")
if os.path.lexists(path):
    os.unlink(path)
os.mkfifo(path, 0o600)
end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
poll = select.poll()
poll.register(end, select.POLLIN)
print("waiting for the shell", flush=True)
if not poll.poll(300000):
    sys.exit("no shell came within 5 minutes")
while os.read(end, 4096):
    poll.poll()
print("the shell has ended", flush=True)
"""

# Some systems have only one of the two.
_ANY_PYTHON = 'exec "$(command -v python3 || command -v python)" -c "$0"'
HOLD: Sequence[str] = ("sh", "-c", _ANY_PYTHON, _WAIT_FOR_SHELL)
