"""Which checkpoints in a folder are this training's: those of other jobs, and of other calls of the same
script, are not resumed from. A file in the folder says what was there when each call began."""

import json
import os
import re
from typing import Any, Dict, List, Optional

from jumar_start import manifest, whole

_NAME = ".jumar-train.json"
_CALLS: Dict[str, int] = {}


class Run:
    """One call of a training in one folder; `pattern` is that of its checkpoints' names, with a number."""

    def __init__(self, folder: str, pattern: str) -> None:
        self.folder = os.path.abspath(folder)
        self._pattern = re.compile(pattern)
        self.number = _CALLS.get(self.folder, 0)
        _CALLS[self.folder] = self.number + 1

    @property
    def name(self) -> str:
        """Tells it from the other calls of this script."""
        return f"{os.path.basename(self.folder)[-80:]}#{self.number}"

    def step(self, path: str) -> int:
        """The number of a checkpoint."""
        return self._step(os.path.basename(path))

    def begin(self, is_first_rank: bool) -> Optional[str]:
        """The newest complete checkpoint of this call, made before this process began."""
        job = os.environ.get("JUMAR_JOB_ID", "")
        said = self._said()
        calls: List[Dict[str, float]] = said["calls"] if said.get("job") == job else []
        if self.number >= len(calls):
            calls.append(self._present())
            if is_first_rank:
                os.makedirs(self.folder, exist_ok=True)
                manifest.write_text(
                    os.path.join(self.folder, _NAME), json.dumps({"job": job, "calls": calls})
                )
            return None
        later = calls[self.number + 1] if self.number + 1 < len(calls) else None
        return self._newest(calls[self.number], later)

    def _newest(self, before: Dict[str, float], later: Optional[Dict[str, float]]) -> Optional[str]:
        own = {
            name: changed
            for name, changed in self._present().items()
            if before.get(name) != changed and (later is None or later.get(name) == changed)
        }
        for name in sorted(own, key=self._step, reverse=True):
            path = os.path.join(self.folder, name)
            if whole.checkpoints().judge(path).state == "complete":
                return path
        return None

    def _step(self, name: str) -> int:
        match = self._pattern.fullmatch(name)
        return int(match[1]) if match else -1

    def _present(self) -> Dict[str, float]:
        if not os.path.isdir(self.folder):
            return {}
        return {
            name: os.path.getmtime(os.path.join(self.folder, name))
            for name in os.listdir(self.folder)
            if self._pattern.fullmatch(name)
        }

    def _said(self) -> Dict[str, Any]:
        try:
            with open(os.path.join(self.folder, _NAME), encoding="utf-8") as file:
                said: Any = json.load(file)
        except (OSError, ValueError):
            return {}
        return said if isinstance(said, dict) and isinstance(said.get("calls"), list) else {}
