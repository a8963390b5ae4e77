"""`python -m jumar.store.staging bring|keep|send PLAN`: one step of an attempt."""

import logging
import sys
from pathlib import Path

from jumar.errors import BadInput, JumarError
from jumar.store.staging.plan import read_plan
from jumar.store.staging.status import StatusFile

logger = logging.getLogger(__name__)
STAGE_FAILED = 70
"""Exit code if the inputs could not be fetched."""


def main(arguments: list[str]) -> int:
    """Carry out one step; a failure is also written to the status file."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s staging: %(message)s", stream=sys.stderr
    )
    try:
        return _step(arguments)
    except JumarError as error:
        logger.error("%s", error)
        return STAGE_FAILED


def _step(arguments: list[str]) -> int:
    match arguments:
        case ["bring", path]:
            return _bring(Path(path))
        case ["keep", path]:
            from jumar.store.staging.send import keep_sending

            keep_sending(read_plan(Path(path)))
            return 0
        case ["send", path]:
            from jumar.store.staging.send import send_finally

            return 0 if send_finally(read_plan(Path(path))) else 1
        case _:
            raise BadInput("write: bring PLAN, keep PLAN or send PLAN")


def _bring(path: Path) -> int:
    from jumar.store.staging.bring import bring

    plan = read_plan(path)
    try:
        bring(plan)
    except JumarError as error:
        StatusFile(Path(plan.status)).tell(phase="failed", error=error.message)
        raise
    StatusFile(Path(plan.status)).tell(phase="brought", error=None)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
