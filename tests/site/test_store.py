"""The built-in store of a site, behind its S3 door: people and their jobs see the same."""

import shutil
import sysconfig
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.site.conftest import Host


def test_people_and_jobs_share_the_sites_store(host: Host) -> None:
    if not Path(sysconfig.get_path("scripts"), "weed").exists():
        pytest.skip("SeaweedFS is not installed")
    host.start_server(JUMAR_S3_PORT=str(free_port()))
    ann, ben = host.users[:2]
    folder = host.home(ann)
    (folder / "data").write_text("read")
    shutil.chown(folder / "data", ann)
    host.jumar(ann, "data", "push", "data", "obs://lab/", folder=folder)
    words = ["run", "--input", "data=obs://lab/data", "--output", "model=obs://lab/out", "--follow"]
    script = 'cat "$JUMAR_INPUT_DATA" > "$JUMAR_OUTPUT_MODEL/m"'
    host.jumar(ann, *words, "--", "sh", "-c", script, folder=folder)
    # Somebody who comes for the first time, too.
    assert "out/m" in host.jumar(ben, "data", "ls", "obs://lab/out/")[1]
    assert not (folder / ".jumar/store").exists()
    host.end_server(15)
