"""A question to Slurm's `scontrol`."""

import subprocess

from jumar.launch.jobdir.safefile import Unusable

_LIMIT_S = 60.0


class Question:
    """Asked at once, answered when the answer is needed: meanwhile there is other work."""

    def __init__(self, *words: str) -> None:
        """Raises Unusable, as `answer` does."""
        self._words = " ".join(words)
        try:
            self._process = subprocess.Popen(
                ["scontrol", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise Unusable(f"scontrol {self._words}: {error}") from error

    def answer(self) -> str:
        """What scontrol says; raises Unusable when it does not."""
        try:
            said, wrong = self._process.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.communicate()
            raise Unusable(f"scontrol {self._words}: no answer in {_LIMIT_S:g} s") from error
        if self._process.returncode:
            raise Unusable(f"scontrol {self._words}: {wrong.strip()}")
        return said
