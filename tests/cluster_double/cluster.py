"""The whole double, and an engine on it."""

import os
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cluster_double.api import NAMESPACE, Api
from tests.cluster_double.machines import Machines
from tests.cluster_double.store import Json, Store

from jumar.engine.kubernetes.engine import KubernetesEngine
from jumar.engine.kubernetes.options import ClusterOptions, cluster_options
from jumar.engine.shared.files import Stages


class Double:
    """A cluster that runs its pods on this machine."""

    def __init__(self, *, volcano: bool) -> None:
        self.store = Store()
        self.machines = Machines(self.store)
        self.api = Api(self.store, volcano=volcano, kubelets=self.machines)

    def engine(
        self, home: Path, *, stages: Stages | None = None, **options: Any
    ) -> KubernetesEngine:
        """Over the official client, with a kubeconfig beside the home."""
        file = self.api.kubeconfig(home.with_name(f"{home.name}.kubeconfig"))
        return KubernetesEngine(home, options_for(file, **options), stages=stages)

    def pods(self, job_id: str) -> list[Json]:
        found = self.store.all("v1/pods")
        return [pod for pod in found if pod["metadata"]["labels"]["jumar.io/job"] == job_id]

    def close(self) -> None:
        self.api.close()
        self.machines.close()


def options_for(kubeconfig: Path, **options: Any) -> ClusterOptions:
    """Settings for a cluster whose pods run on this machine."""
    values = {
        "namespace": NAMESPACE,
        "kubeconfig": str(kubeconfig),
        "image": "any:1",
        "python": sys.executable,
        "chip": "910b",
        **options,
    }
    return cluster_options(values)


@contextmanager
def running_double(*, volcano: bool = False) -> Generator[Double]:
    """Skips where pods cannot have processes of their own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs unshare and root")
    double = Double(volcano=volcano)
    try:
        yield double
    finally:
        double.close()
