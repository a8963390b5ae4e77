"""The environment of a process in which jumar acts before the script's first line: run-time porting,
and the notes that a proof compares."""

import os
from pathlib import Path
from typing import Dict, Mapping, NamedTuple

START_PATH = Path(__file__).resolve().parent / "start_path"


def first_on_path(environ: Mapping[str, str], folder: Path) -> Dict[str, str]:
    """`environ` with `folder` at the front of PYTHONPATH."""
    before = environ.get("PYTHONPATH")
    # An empty entry among others means the working directory.
    entries = (
        [entry for entry in before.split(os.pathsep) if entry != str(folder)] if before else []
    )
    return {**environ, "PYTHONPATH": os.pathsep.join([str(folder), *entries])}


def auto_port(environ: Mapping[str, str]) -> Dict[str, str]:
    """`environ` in which cuda means npu."""
    return {**first_on_path(environ, START_PATH), "JUMAR_AUTO_PORT": "1"}


class Limits(NamedTuple):
    """How far a run goes."""

    steps: int
    time_s: int


def noted(
    environ: Mapping[str, str], *, notes: Path, source: Path, root: Path, limits: Limits
) -> Dict[str, str]:
    """`environ` that writes notes of what the copy of `source` in `root` computes to `notes`."""
    return {
        **first_on_path(environ, START_PATH),
        "JUMAR_PROOF": str(notes),
        "JUMAR_PROOF_ROOT": str(root),
        "JUMAR_PROOF_SOURCE": str(source),
        "JUMAR_PROOF_STEPS": str(limits.steps),
        "JUMAR_PROOF_TIME_S": str(limits.time_s),
        # The same order of sets in every run.
        "PYTHONHASHSEED": "0",
        **_same_sums(environ),
    }


def with_test_results(environ: Mapping[str, str]) -> Dict[str, str]:
    """A noted `environ` in which pytest notes its tests, and nothing else is noted or limited."""
    plugin = "-p jumar_start.test_results"
    options = f"{environ.get('PYTEST_ADDOPTS', '')} {plugin}".strip()
    return {**environ, "PYTEST_ADDOPTS": options, "JUMAR_PROOF_TESTS": "1"}


def _same_sums(environ: Mapping[str, str]) -> Dict[str, str]:
    """The same order of every sum: a fixed number of threads, and kernels that do not choose anew."""
    threads = environ.get("OMP_NUM_THREADS", "1")
    return {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "OMP_DYNAMIC": "FALSE",
        "MKL_DYNAMIC": "FALSE",
        "MKL_CBWR": "AUTO,STRICT",
        "KMP_DETERMINISTIC_REDUCTION": "TRUE",
    }


def cuda_on_cpu(environ: Mapping[str, str], *, devices: int) -> Dict[str, str]:
    """`environ` of a noted run in which cuda means the CPU; plug-ins and cards are hidden."""
    return {
        **environ,
        "JUMAR_PROOF_CPU": "1",
        "JUMAR_PROOF_DEVICES": str(devices),
        "CUDA_VISIBLE_DEVICES": "",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
