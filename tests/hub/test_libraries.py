"""The unmodified transformers, datasets and `hf`: at full size, apart from `make test`."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.hub.conftest import Hubbed, client_environment


@pytest.mark.full
def test_models_and_data_sets_through_their_own_libraries(hub: Hubbed, tmp_path: Path) -> None:
    environment = client_environment(
        tmp_path,
        HF_ENDPOINT=f"{hub.running.url}/hf",
        HF_TOKEN=hub.running.token("ann"),
        HF_HOME=str(tmp_path / "cache"),
        HF_HUB_DISABLE_TELEMETRY="1",
        HF_HUB_DISABLE_UPDATE_CHECK="1",
        HF_UPDATE_DOWNLOAD_COUNTS="0",
        DISABLE_SAFETENSORS_CONVERSION="1",
        LARGE_MB="300",
        OMP_NUM_THREADS="1",
    )
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("libraries.py"))],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    assert (tmp_path / "done").exists(), done.stdout + done.stderr
    for name in ("by-xet", "by-lfs"):
        repo = hub.running.site.hub.repositories.find("model", "ann", name)
        assert repo is not None
        hub.fsck(repo)
