"""The site's table of mounts: paths that jobs know, and the folders of this machine that they mean.

A job sees a folder under both paths; whoever works for it outside of its view knows only this
machine's own, so the paths in a spec are translated before anything is looked for or linked."""

from collections.abc import Mapping
from dataclasses import dataclass

from jumar.spec.job import JobSpec
from jumar.spec.urls import is_remote


@dataclass(frozen=True, slots=True)
class Mounts:
    """Paths of jobs to folders of this machine."""

    table: Mapping[str, str]

    def place(self, path: str) -> str:
        """Where a path of a job is on this machine; the longest entry counts."""
        for target in sorted(self.table, key=len, reverse=True):
            if path == target or path.startswith(f"{target}/"):
                return self.table[target] + path.removeprefix(target)
        return path

    def place_all(self, urls: Mapping[str, str]) -> dict[str, str]:
        """The same for each that is no address of a store."""
        return {name: url if is_remote(url) else self._url(url) for name, url in urls.items()}

    def placed(self, spec: JobSpec) -> JobSpec:
        """The spec with the paths of this machine. Only where there is a table: all paths lose their `file://`."""
        ckpt = self.place_all({} if spec.ckpt is None else {"ckpt": spec.ckpt}).get("ckpt")
        changed = {
            "workdir": None if spec.workdir is None else self.place(spec.workdir),
            "inputs": self.place_all(spec.inputs),
            "outputs": self.place_all(spec.outputs),
            "ckpt": ckpt,
        }
        return spec.model_copy(update=changed)

    def _url(self, url: str) -> str:
        return self.place(url.removeprefix("file://"))


NO_MOUNTS = Mounts({})
