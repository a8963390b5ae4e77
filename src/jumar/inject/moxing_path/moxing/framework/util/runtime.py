"""`runtime.reset_logger`: how much of this module's log is shown."""

import logging


def reset_logger(level: int = logging.INFO) -> None:
    """From this level on; the script's own logging stays as it is."""
    logging.getLogger("moxing").setLevel(level)
