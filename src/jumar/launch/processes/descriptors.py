"""How many files a process may have open: many for a server, as before for what it starts.

A soft limit of 1,024 is a common default, which a thousand idle connections use up. Programs that
wait with select() break above it, so jobs keep the limit that they would have had."""

import resource
from typing import List, Optional, Sequence

# Enough for any server here; more makes programs slow that close all descriptors they might have.
_MOST = 65536
# Only a process can lower its own limit; the shell is replaced by the program at once.
_LOWER = 'ulimit -Sn "$0"; exec "$@"'
_before: Optional[int] = None


def raise_limit() -> int:
    """Raise the soft limit of this process as far as it may; returns the limit from now on."""
    global _before
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    _before = soft
    return wanted


def as_before(argv: Sequence[str]) -> List[str]:
    """A command line that runs `argv` with the limit that this process started with."""
    if _before is None:
        return list(argv)
    return ["/bin/sh", "-c", _LOWER, str(_before), *argv]
