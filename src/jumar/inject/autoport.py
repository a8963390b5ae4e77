"""Runs a CUDA script on NPUs without editing it: `python -m jumar.inject.autoport train.py …`.

The script runs as with `python train.py …`, in an environment in which it and its children use npu for
cuda, through the plug-in's own `transfer_to_npu`, real or simulated. Without torch_npu the script runs
unchanged, with a message on stderr."""

import os
import sys
from typing import List, Optional

from jumar.inject.starting import auto_port

_USAGE = "usage: python -m jumar.inject.autoport [-m MODULE | SCRIPT] [ARGUMENT …]"


def main(arguments: Optional[List[str]] = None) -> int:
    """Become the script's own process."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given == ["-m"] or given[0] in ("-h", "--help"):
        sys.stderr.write(_USAGE + "\n")
        return 0 if given and given[0] in ("-h", "--help") else 2
    if given[0] != "-m" and not os.path.exists(given[0]):
        sys.stderr.write(f"autoport: {given[0]} does not exist\n")
        return 2
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *given], auto_port(os.environ))


if __name__ == "__main__":
    sys.exit(main())
