"""Data in stores, brought to pods and sent from them by the Python of their image."""

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster_double.cluster import Double
from tests.engine.conftest import log_of, make_attempt, wait_final

# What the store's own tests have.
from tests.store.conftest import moto_credential as moto_credential
from tests.waiting import wait_for

from jumar.engine.kubernetes.engine import KubernetesEngine
from jumar.engine.shared.files import Stages
from jumar.errors import SubmitRefused
from jumar.inject.moxing_path.jumar_s3 import S3, S3Error
from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState
from jumar.store.credentials import Credential, save_credential
from jumar.store.users import UserStores

COPY = """
import os, sys
given = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
text = open(given["data_url"] + "/x").read()
open(given["train_url"] + "/model", "w").write(text * 2)
print("read", text, flush=True)
"""
DATA: dict[str, Any] = {
    "inputs": {"data_url": "obs://lab/pods/data"},
    "outputs": {"train_url": "obs://lab/pods/out"},
}


@pytest.fixture
def engine(kubernetes_double: Double, tmp_path: Path) -> Generator[KubernetesEngine]:
    stages = Stages(UserStores(tmp_path, owner="ann"), every_s=0.2, patience_s=1.0)
    made = kubernetes_double.engine(tmp_path, stages=stages)
    yield made
    made.close()


def read(s3: S3, key: str) -> bytes:
    try:
        return s3.get("lab", key).read()
    except S3Error:
        return b""


def test_data_in_a_store_comes_and_results_go(
    engine: KubernetesEngine, tmp_path: Path, moto_credential: Credential
) -> None:
    s3 = S3(moto_credential.wire())
    s3.put("lab", "pods/data/x", b"digits", 6)
    save_credential(tmp_path / "store.json", "obs", moto_credential)
    attempt = make_attempt(tmp_path, [sys.executable, "-c", COPY], cards=(), **DATA)
    engine.plan(attempt.spec, user="ann")
    engine.start(attempt)
    seen = wait_final(engine, attempt)
    assert seen.state is AttemptState.SUCCEEDED, seen
    assert not seen.not_uploaded
    assert log_of(attempt) == "read digits\n"
    assert read(s3, "pods/out/model") == b"digitsdigits"
    record = engine.staging(attempt)
    assert record is not None
    assert record.phase == "done"
    # Keys are nowhere once it is over: neither among its files nor in what the cluster was told.
    kept = [path for path in attempt.directory.rglob("*") if path.is_file()]
    assert kept
    assert not [p for p in kept if moto_credential.secret_key.encode() in p.read_bytes()]
    (attempt.directory / "out" / "train_url" / "late").write_text("late")
    engine.send_results(attempt)
    wait_for(lambda: read(s3, "pods/out/late") == b"late", "what was left is sent from here")


def test_what_cannot_come_is_told(
    engine: KubernetesEngine,
    kubernetes_double: Double,
    tmp_path: Path,
    moto_credential: Credential,
) -> None:
    command = [sys.executable, "-c", COPY]
    with pytest.raises(SubmitRefused, match="cannot be reached"):
        engine.plan(make_attempt(tmp_path, command, cards=(), **DATA).spec, user="ann")
    save_credential(tmp_path / "store.json", "obs", moto_credential)
    nothing: dict[str, Any] = {"inputs": {"data_url": "obs://lab/nothing"}}
    attempt = make_attempt(tmp_path, command, cards=(), **nothing)
    engine.start(attempt)
    seen = wait_final(engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.FAILED, Cause.INPUTS)
    assert "obs://lab/nothing: does not exist" in str(seen.reason)


OLD = """#!/bin/sh
exec {python} -c 'import runpy, sys
sys.version_info = (3, 8, 20, "final", 0)
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")' "$@"
"""


def test_an_image_with_an_old_python_says_so(
    kubernetes_double: Double, tmp_path: Path, moto_credential: Credential
) -> None:
    old = tmp_path / "python3.8"
    old.write_text(OLD.format(python=sys.executable))
    old.chmod(0o755)
    save_credential(tmp_path / "store.json", "obs", moto_credential)
    engine = kubernetes_double.engine(tmp_path, python=str(old))
    attempt = make_attempt(tmp_path, "true", cards=(), **DATA)
    engine.start(attempt)
    seen = wait_final(engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.FAILED, Cause.INPUTS)
    assert "takes Python 3.11 in the image, which has 3.8" in str(seen.reason)
    engine.close()
