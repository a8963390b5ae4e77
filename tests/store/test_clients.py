"""Through the door of `jumar up --s3`: other people's clients read what jumar wrote, and the reverse.

Each client comes in as a member with her own keys."""

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.store.parts import copy, program, tree
from tests.store.served import Served, run_jumar

from jumar.inject.moxing_path.jumar_s3.parts import MIB
from jumar.spec.records import S3Keys
from jumar.store.credentials import Credential, StoreConfig

BIG = "深 度/learning #1.bin"
ODD = ("a b/c d.txt", "数据/图 1.jpg", "a+b=c&d.txt", "50%.txt", "q#1.txt", "deep/er/x")
MANY = 1_100


@pytest.fixture(scope="module")
def keys(platform: Served) -> S3Keys:
    return platform.keys("ann")


@pytest.fixture(scope="module")
def config(platform: Served, keys: S3Keys, tmp_path_factory: pytest.TempPathFactory) -> StoreConfig:
    folder = tmp_path_factory.mktemp("clients")
    credential = Credential(keys.endpoint, access_key=keys.access_key, secret_key=keys.secret_key)
    return StoreConfig(folder / "store", folder / "transfers", obs=credential)


@pytest.fixture(scope="module")
def written(
    platform: Served, config: StoreConfig, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, bytes]]:
    """What jumar put into a bucket, by its command: odd names, one file in parts, many small ones."""
    folder = tmp_path_factory.mktemp("written")
    for name in ODD:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    (folder / BIG).parent.mkdir(parents=True)
    (folder / BIG).write_bytes(os.urandom(21 * MIB + 7))
    (folder / "many").mkdir()
    for number in range(MANY):
        (folder / "many" / f"{number:04d}").write_bytes(str(number).encode())
    bucket = f"clients{os.getpid()}"
    run_jumar(platform.home, "data", "push", str(folder), f"obs://{bucket}/in", "--quiet")
    return bucket, tree(folder)


Written = tuple[str, dict[str, bytes]]


@pytest.fixture
def boto3_client(keys: S3Keys) -> Generator[Any]:
    boto3: Any = import_module("boto3")
    client = boto3.client(
        "s3",
        endpoint_url=keys.endpoint,
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key,
        region_name=keys.region,
    )
    yield client
    client.close()


def test_boto3(boto3_client: Any, config: StoreConfig, written: Written, tmp_path: Path) -> None:
    client, (bucket, files) = boto3_client, written
    listed: dict[str, int] = {}
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="in/")
    for page in pages:
        listed |= {found["Key"]: found["Size"] for found in page["Contents"]}
    assert listed == {f"in/{name}": len(data) for name, data in files.items()}
    for name in (*ODD, BIG):
        assert client.get_object(Bucket=bucket, Key=f"in/{name}")["Body"].read() == files[name]
    ranged = client.get_object(Bucket=bucket, Key=f"in/{BIG}", Range="bytes=100-199")
    assert ranged["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert ranged["Body"].read() == files[BIG][100:200]
    url = client.generate_presigned_url("get_object", {"Bucket": bucket, "Key": f"in/{ODD[1]}"})
    with urllib.request.urlopen(url, timeout=180) as answer:
        assert answer.read() == files[ODD[1]]
    # And the reverse: in parts, copied on the server, deleted.
    (tmp_path / "big").write_bytes(files[BIG])
    client.upload_file(str(tmp_path / "big"), bucket, "boto3/big 名")
    client.copy_object(
        Bucket=bucket, Key="boto3/copy", CopySource={"Bucket": bucket, "Key": "boto3/big 名"}
    )
    client.put_object(Bucket=bucket, Key="boto3/gone", Body=b"x")
    client.delete_object(Bucket=bucket, Key="boto3/gone")
    copy(f"obs://{bucket}/boto3", tmp_path / "back", config)
    assert tree(tmp_path / "back") == {"big 名": files[BIG], "copy": files[BIG]}


def test_s5cmd(
    keys: S3Keys, platform: Served, config: StoreConfig, written: Written, tmp_path: Path
) -> None:
    bucket, files = written
    shown = run_jumar(platform.home, "store", "keys").stdout
    names = [line.removeprefix("export ").partition("=")[0] for line in shown.splitlines()]
    values = {
        "AWS_ACCESS_KEY_ID": keys.access_key,
        "AWS_SECRET_ACCESS_KEY": keys.secret_key,
        "S3_ENDPOINT_URL": keys.endpoint,
        "AWS_REGION": keys.region,
    }
    # These are the variables that `jumar store keys` prints, here with ann's values.
    assert set(values) <= set(names)

    def s5cmd(*arguments: str) -> str:
        done = subprocess.run(
            [program("s5cmd"), *arguments],
            env={**os.environ, **values},
            check=True,
            timeout=120,
            capture_output=True,
            text=True,
        )
        return done.stdout

    s5cmd("cp", f"s3://{bucket}/in/*", str(tmp_path / "got"))
    assert tree(tmp_path / "got") == files
    assert len(s5cmd("ls", f"s3://{bucket}/in/many/*").splitlines()) == MANY
    s5cmd("cp", f"{tmp_path}/got/", f"s3://{bucket}/s5cmd/")
    # Its copy on the server fails for the odd name of the big one: a plain one.
    s5cmd("cp", f"s3://{bucket}/s5cmd/{ODD[-1]}", f"s3://{bucket}/s5cmd-copy")
    s5cmd("rm", f"s3://{bucket}/s5cmd/many/*")
    copy(f"obs://{bucket}/s5cmd", tmp_path / "back", config)
    wanted = {name: data for name, data in files.items() if not name.startswith("many/")}
    assert tree(tmp_path / "back") == wanted
    copy(f"obs://{bucket}/s5cmd-copy", tmp_path / "copied", config)
    assert (tmp_path / "copied").read_bytes() == files[ODD[-1]]


SDK = """
import os, sys
from obs import ObsClient
endpoint, bucket, big, odd, many, out = sys.argv[1:]
client = ObsClient(
    access_key_id=os.environ["AK"], secret_access_key=os.environ["SK"], server=endpoint,
    signature="v4", path_style=True,
)

def good(answer):
    assert answer.status < 300, (answer.status, answer.errorCode, answer.errorMessage)
    return answer.body

got = good(client.getObject(bucket, "in/" + odd, loadStreamInMemory=True))
assert got.buffer == odd.encode(), got
from obs import GetObjectHeader
part = good(client.getObject(
    bucket, "in/" + big, loadStreamInMemory=True, headers=GetObjectHeader(range="100-199")))
assert part.size == 100
good(client.getObject(bucket, "in/" + big, downloadPath=out))
marker, count = None, 0
while True:
    page = good(client.listObjects(bucket, prefix="in/many/", max_keys=1000, marker=marker))
    count += len(page.contents)
    if not page.is_truncated:
        break
    marker = page.next_marker
assert count == int(many), count
good(client.putContent(bucket, "sdk/" + odd, "hello jumar"))
begun = good(client.initiateMultipartUpload(bucket, "sdk/parts 名"))
from obs import CompleteMultipartUploadRequest, CompletePart
parts = []
for number in (1, 2):
    sent = good(client.uploadPart(
        bucket, "sdk/parts 名", number, begun.uploadId, object=out, isFile=True,
        partSize=5 << 20, offset=(number - 1) * (5 << 20)))
    parts.append(CompletePart(partNum=number, etag=sent.etag))
good(client.completeMultipartUpload(
    bucket, "sdk/parts 名", begun.uploadId, CompleteMultipartUploadRequest(parts=parts)))
good(client.copyObject(bucket, "in/" + odd, bucket, "sdk/copy"))
good(client.putContent(bucket, "sdk/gone", "x"))
good(client.deleteObject(bucket, "sdk/gone"))
signed = client.createSignedUrl("GET", bucket, "sdk/copy", expires=300)
print(signed.signedUrl)
"""


def test_the_sdk_of_obs(
    keys: S3Keys, config: StoreConfig, written: Written, tmp_path: Path
) -> None:
    bucket, files = written
    out = tmp_path / "sdk-got"
    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-c", SDK, keys.endpoint, bucket),
            *(BIG, ODD[1], str(MANY), str(out)),
        ],
        env={**os.environ, "AK": keys.access_key, "SK": keys.secret_key},
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert out.read_bytes() == files[BIG]
    with urllib.request.urlopen(done.stdout.split()[-1], timeout=180) as answer:
        assert answer.read() == files[ODD[1]]
    copy(f"obs://{bucket}/sdk", tmp_path / "back", config)
    assert tree(tmp_path / "back") == {
        ODD[1]: b"hello jumar",
        "parts 名": files[BIG][: 10 * MIB],
        "copy": files[ODD[1]],
    }


def test_rclone(keys: S3Keys, config: StoreConfig, written: Written, tmp_path: Path) -> None:
    from jumar.cli.s3_keys import shown_for

    bucket, files = written
    settings = tmp_path / "rclone.conf"
    settings.write_text(shown_for("rclone", keys))

    def rclone(*arguments: str) -> None:
        subprocess.run(
            [program("rclone"), "--config", str(settings), *arguments],
            check=True,
            timeout=120,
            capture_output=True,
        )

    rclone("copy", f"jumar:{bucket}/in", str(tmp_path / "got"))
    assert tree(tmp_path / "got") == files
    rclone("copy", "--exclude", "/many/**", str(tmp_path / "got"), f"jumar:{bucket}/rclone")
    copy(f"obs://{bucket}/rclone", tmp_path / "back", config)
    wanted = {name: data for name, data in files.items() if not name.startswith("many/")}
    assert tree(tmp_path / "back") == wanted


def test_an_address_of_ours_works_without_a_key(platform: Served, written: Written) -> None:
    bucket, files = written
    url = run_jumar(platform.home, "data", "url", f"obs://{bucket}/in/{ODD[1]}").stdout.strip()
    with urllib.request.urlopen(url, timeout=180) as answer:
        assert answer.read() == files[ODD[1]]
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url.replace("X-Amz-Signature=", "X-Amz-Signature=0"), timeout=180)
    with refused.value:
        assert refused.value.code == 403
