"""`jumar data doctor` and `jumar data sweep`: faults and leftovers of real servers."""

import fcntl
import json
import os
import ssl
import subprocess
import time
from collections.abc import Callable
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.store.dialects import Dialect, speaking
from tests.store.served import run_jumar
from tests.store.test_manners import ERROR, answer, body_of, serving

from jumar.inject.moxing_path.jumar_s3 import S3
from jumar.store.checkup import Finding, examine
from jumar.store.credentials import Credential, StoreConfig, save_credential
from jumar.store.door import Door
from jumar.store.places import open_place
from jumar.store.sweep import abort, unfinished

DAY_S = 86_400
LISTING = "<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>"


def look(credential: Credential | None, home: Path, *, write: bool = False) -> dict[str, Finding]:
    config = StoreConfig(home / "store", home / "transfers", obs=credential)
    found = list(examine(open_place("obs://lab", config), write=write))
    # Whatever is wrong, each finding says so once, and no failure is without a remedy.
    assert len({one.check for one in found}) == len(found)
    assert all(one.fix for one in found if one.verdict in ("fail", "warn")), found
    return {one.check: one for one in found}


def at(port: int, scheme: str = "http", region: str = "us-east-1") -> Credential:
    return Credential(f"{scheme}://127.0.0.1:{port}", region, access_key="AK", secret_key="SK")


def test_a_server_that_is_well(home: Path, moto_credential: Credential) -> None:
    s3 = S3(moto_credential.wire())
    s3.put("lab", "for the rate", bytes(300_000), 300_000)
    found = look(moto_credential, home, write=True)
    assert [one for one in found.values() if one.verdict == "fail"] == []
    assert "the key can list" in found["answer"].seen
    assert found["list"].seen == "listing API version 2"
    assert found["style"].seen == "the bucket is named in the path"
    assert found["write"].verdict == found["clock"].verdict == found["rate"].verdict == "ok"
    assert [one.key for one in s3.page("lab", "jumar-data-doctor").objects] == []


def test_version_1_and_no_objects(home: Path) -> None:
    with speaking(Dialect("1")) as dialect:
        found = look(dialect.credential, home)
        assert found["list"].seen == "listing API version 1"
        assert (found["rate"].verdict, found["rate"].fix) == ("unknown", "run it with --write")
        assert not any(line.startswith(("PUT", "DELETE", "POST")) for line in dialect.asked)
        assert look(dialect.credential, home, write=True)["rate"].verdict in ("ok", "warn")
        assert dialect.objects == {}


def refusing(status: int, code: str, more: str = "", **headers: str) -> Callable[..., None]:
    def handle(request: BaseHTTPRequestHandler) -> None:
        body_of(request)
        answer(request, status, ERROR.format(code, more), **headers)

    return handle


@pytest.mark.parametrize(
    ("status", "code", "seen", "fix"),
    [
        (403, "InvalidAccessKeyId", "does not know this access key", "jumar login obs"),
        (403, "SignatureDoesNotMatch", "the secret key is wrong", "jumar login obs"),
        (403, "ExpiredToken", "temporary credential has expired", "--token"),
        (403, "RequestTimeTooSkewed", "clock", "timedatectl"),
        (404, "NoSuchBucket", "the bucket does not exist", "jumar data ls"),
        (301, "PermanentRedirect", "the bucket is not at", "jumar login obs"),
    ],
)
def test_refusals_in_their_own_words(
    status: int, code: str, seen: str, fix: str, home: Path
) -> None:
    with serving(refusing(status, code)) as port:
        found = look(at(port), home)
    assert found["answer"].verdict == "fail"
    assert seen in found["answer"].seen
    assert fix in str(found["answer"].fix)
    assert "list" not in found


def test_clock_region_and_encryption(home: Path) -> None:
    def handle(request: BaseHTTPRequestHandler) -> None:
        request.date_time_string = lambda timestamp=None: formatdate(time.time() + 600, usegmt=True)  # pyright: ignore[reportAttributeAccessIssue]
        text = LISTING
        if "encryption" in request.path:
            text = "<S><Rule><A><SSEAlgorithm>kms</SSEAlgorithm></A></Rule></S>"
        answer(request, 200, text, x_amz_bucket_region="cn-east-3")

    with serving(handle) as port:
        found = look(at(port, region="cn-north-4"), home)
    assert found["clock"].verdict == "warn"
    assert "behind the server's" in found["clock"].seen
    assert found["region"].seen == "the bucket is in cn-east-3, the key is for cn-north-4"
    assert found["region"].fix == "jumar login obs --region cn-east-3"
    assert found["encryption"].seen.startswith("kms")


def test_the_network(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = free_port()
    found = look(at(nobody), home)
    assert (found["reachable"].verdict, list(found)[-1]) == ("fail", "reachable")
    unknown = Credential("https://obs.no-such-region.invalid", access_key="AK", secret_key="SK")
    found = look(unknown, home)
    assert (found["dns"].verdict, list(found)[-1]) == ("fail", "dns")
    monkeypatch.setenv("https_proxy", "socks5://proxy:1080")
    assert look(unknown, home)["proxy"].verdict == "fail"
    monkeypatch.setenv("https_proxy", f"http://ann:sec%72et@127.0.0.1:{nobody}")
    found = look(unknown, home)
    assert "NO_PROXY" in str(found["reachable"].fix)
    assert "sec" not in "".join(one.seen + str(one.fix) for one in found.values())
    with serving(refusing(407, "x")) as port:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        found = look(unknown, home)
    assert (found["answer"].verdict, "HTTPS_PROXY" in str(found["answer"].fix)) == ("fail", True)


def test_a_certificate_that_is_not_trusted(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "ca.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3 -subj /CN=a"
    names = (
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    )
    subprocess.run(["openssl", *words.split(), *names], check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(lambda request: answer(request, 200, LISTING), context) as port:
        found = look(at(port, "https"), home)
        assert (found["tls"].verdict, "SSL_CERT_FILE" in str(found["tls"].fix)) == ("fail", True)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        found = look(at(port, "https"), home)
        assert "valid for 3 more days" in found["tls"].seen
        assert (found["tls"].verdict, found["answer"].verdict) == ("warn", "ok")


def test_another_program_on_the_port(home: Path) -> None:
    with speaking(Dialect(taken_over=True)) as dialect:
        found = look(dialect.credential, home)
    assert (found["answer"].verdict, "S3 server" in str(found["answer"].fix)) == ("fail", True)


def test_the_commands(home: Path, door: Door, door_bucket: str, door_config: StoreConfig) -> None:
    """Against SeaweedFS: findings as JSON, uploads listed, asked for, aborted; others stay."""
    url = f"obs://{door_bucket}/ckpt"
    done = run_jumar(home, "data", "doctor", url, "--write", "--json")
    report = json.loads(done.stdout)
    assert report["well"] is True
    assert {"credentials", "answer", "clock", "list", "write", "rate"} <= {
        row["check"] for row in report["results"]
    }
    s3 = S3(door.credential.wire())
    begun = {key: s3.create_upload(door_bucket, key).id for key in ("ckpt/a", "ckpt/b", "ckpt2")}
    for key, upload in begun.items():
        s3.put_part(door_bucket, key, upload, 1, bytes(1000), 1000)
    place = open_place(url, door_config)
    # Young ones may be in use.
    assert unfinished(place, DAY_S) == ()
    assert run_jumar(home, "data", "sweep", url).stderr.startswith("no unfinished uploads")
    found = unfinished(place, 0)
    assert {(one.key, one.upload_id) for one in found} == {
        (key, begun[key]) for key in ("ckpt/a", "ckpt/b")
    }
    assert all(one.bytes == 1000 for one in found)
    s3.abort_upload(door_bucket, "ckpt/a", begun["ckpt/a"])
    assert abort(place, found) == ()
    assert [one.key for one in s3.unfinished_uploads(door_bucket)] == ["ckpt2"]


def test_old_uploads_need_a_yes(home: Path, moto_credential: Credential) -> None:
    """moto says that all of them are years old."""
    save_credential(home / "store.json", "obs", moto_credential)
    s3 = S3(moto_credential.wire())
    s3.create_bucket("swept")
    for key in ("a", "b"):
        s3.create_upload("swept", key)
    done = run_jumar(home, "data", "sweep", "obs://swept", "--dry-run")
    assert ("would abort 2 uploads" in done.stderr, " a\n" in done.stdout) == (True, True)
    assert "--yes" in run_jumar(home, "data", "sweep", "obs://swept", rc=2).stderr
    assert len(list(s3.unfinished_uploads("swept"))) == 2
    assert "jumar data sweep obs://swept" in run_jumar(home, "data", "doctor", "obs://swept").stdout
    done = run_jumar(home, "data", "sweep", "obs://swept", "--yes", "--json")
    assert json.loads(done.stdout)["aborted"] == 2
    assert list(s3.unfinished_uploads("swept")) == []


def test_folders(home: Path, tmp_path: Path) -> None:
    assert "reachable" in look(None, home)
    config = StoreConfig(home / "store", home / "transfers")
    found = list(examine(open_place(str(tmp_path), config), write=True))
    assert [one.verdict for one in found] == ["ok"] * len(found)
    assert [path.name for path in tmp_path.iterdir()] == []


def test_leftovers_in_the_built_in_store_are_swept(home: Path, tmp_path: Path) -> None:
    """Hidden files of killed copies; what is in use, young or somebody's own stays."""
    bucket = home / "store" / "lab"
    names = (".jumar-77-c1", "deep/.jumar-ab12.part", "deep/.jumar-held.part", "deep/.mine", "kept")
    for name in (*names, "other/.jumar-77-c2", ".jumar-78-c3"):
        (bucket / name).parent.mkdir(parents=True, exist_ok=True)
        (bucket / name).write_bytes(bytes(5000))
        os.utime(bucket / name, (1, 1))
    os.utime(bucket / ".jumar-78-c3")
    (bucket / ".jumar-link").symlink_to(bucket / "kept")
    done = run_jumar(home, "data", "sweep", "obs://lab/deep", "--dry-run", "--json")
    assert [row["key"] for row in json.loads(done.stdout)["found"]] == list(names[1:3])
    with open(bucket / names[2], "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = run_jumar(home, "data", "sweep", "obs://lab", "--yes", rc=1)
    assert "is in use" in done.stderr
    left = {str(path.relative_to(bucket)) for path in bucket.rglob("*") if path.is_file()}
    assert left == {*names[2:], ".jumar-78-c3", ".jumar-link"}
