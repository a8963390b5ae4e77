"""The tools that `bench/store.py` compares: the command of each for a copy up or down."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

TOOLS = ("jumar", "s5cmd", "rclone", "boto3", "obstore", "s3fs")
Command = Callable[[str, Path, str], list[str]]
"""From the way (`up` or `down`), a file or folder, and a prefix."""
# In environments of their own: beside boto3, s3fs resolves to a very old version.
PINS = {"obstore": "obstore==0.12.1", "s3fs": "s3fs==2026.9.0"}
# s5cmd takes 256 by itself; the others would take fewer.
AT_A_TIME = "32"
SCRIPTS = Path(sys.executable).parent
BOTO3 = """
import boto3, os, sys
from botocore.config import Config
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
way, local, bucket, prefix = sys.argv[1:]
client = boto3.client('s3', endpoint_url=os.environ['S3_ENDPOINT_URL'],
                      config=Config(max_pool_connections=64))
pool = ThreadPoolExecutor(32)
local = Path(local)
if way == 'up':
    files = [p for p in local.rglob('*') if p.is_file()] if local.is_dir() else [local]
    base = local if local.is_dir() else local.parent
    list(pool.map(lambda p: client.upload_file(str(p), bucket, f'{prefix}/{p.relative_to(base)}'), files))
else:
    pages = client.get_paginator('list_objects_v2').paginate(Bucket=bucket, Prefix=prefix + '/')
    keys = [o['Key'] for page in pages for o in page.get('Contents', [])]
    def get(key):
        path = local / key[len(prefix) + 1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        client.download_file(bucket, key, str(path))
    list(pool.map(get, keys))
"""
OBSTORE = """
import asyncio, os, sys
from pathlib import Path
import obstore
from obstore.store import S3Store
way, local, bucket, prefix = sys.argv[1:]
endpoint = os.environ['S3_ENDPOINT_URL']
store = S3Store(bucket, endpoint=endpoint, region='us-east-1', virtual_hosted_style_request=False,
                client_options={'allow_http': True, 'timeout': '600s'})
local = Path(local)
async def main():
    turns = asyncio.Semaphore(32)
    async def put(path, key):
        async with turns:
            await obstore.put_async(store, key, path)
    async def get(key, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        async with turns:
            with path.open('wb') as file:
                async for piece in (await obstore.get_async(store, key)).stream(1 << 20):
                    file.write(piece)
    if way == 'up':
        files = [p for p in local.rglob('*') if p.is_file()] if local.is_dir() else [local]
        base = local if local.is_dir() else local.parent
        await asyncio.gather(*(put(p, f'{prefix}/{p.relative_to(base)}') for p in files))
    else:
        rows = [row for page in obstore.list(store, prefix + '/') for row in page]
        await asyncio.gather(*(get(row['path'], local / row['path'][len(prefix) + 1:]) for row in rows))
asyncio.run(main())
# Its threads sometimes abort the interpreter while that ends.
os._exit(0)
"""
S3FS = """
import os, sys, s3fs
way, local, bucket, prefix = sys.argv[1:]
fs = s3fs.S3FileSystem(key=os.environ['AWS_ACCESS_KEY_ID'], secret=os.environ['AWS_SECRET_ACCESS_KEY'],
                       client_kwargs={'endpoint_url': os.environ['S3_ENDPOINT_URL']})
if way == 'up':
    target = f'{bucket}/{prefix}/' + ('' if os.path.isdir(local) else os.path.basename(local))
    fs.put(local + '/' if os.path.isdir(local) else local, target, recursive=os.path.isdir(local), batch_size=16)
else:
    fs.get(f'{bucket}/{prefix}/', local + '/', recursive=True, batch_size=16)
"""


def where(name: str) -> str | None:
    """Its path in this environment or this system."""
    # From the package index a program comes in a Python package, whose script would cost it a start of Python.
    package = importlib.util.find_spec(name)
    for folder in (package and package.submodule_search_locations) or ():
        if (program := Path(folder) / "bin" / name).is_file():
            return str(program)
    return shutil.which(name, path=f"{SCRIPTS}:{os.environ['PATH']}")


def jumar(way: str, local: Path, prefix: str) -> list[str]:
    """`jumar data push` or `pull`."""
    url = f"obs://bench/{prefix}/"
    sides = ["push", str(local), url] if way == "up" else ["pull", url, str(local)]
    return [str(SCRIPTS / "jumar"), "data", *sides]


def _s5cmd(way: str, local: Path, prefix: str) -> list[str]:
    words = [str(where("s5cmd")), "--log", "error", "cp"]
    if way == "up":
        return [*words, f"{local}/" if local.is_dir() else str(local), f"s3://bench/{prefix}/"]
    return [*words, f"s3://bench/{prefix}/*", f"{local}/"]


def _rclone(way: str, local: Path, prefix: str) -> list[str]:
    sides = [str(local), f"d:bench/{prefix}"]
    options = ["--transfers", AT_A_TIME, "--checkers", AT_A_TIME]
    return [str(where("rclone")), "copy", *options, *(sides if way == "up" else sides[::-1])]


def tool_commands(folder: Path, wanted: Sequence[str]) -> dict[str, Command]:
    """Of the tools that are wanted, name to the command that copies a file or folder up, or a prefix down.
    Environments that some need are made in `folder`."""
    found: dict[str, Command] = {"jumar": jumar}
    for name, command in (("s5cmd", _s5cmd), ("rclone", _rclone)):
        if where(name):
            found[name] = command
    pythons = _own_pythons(folder, wanted)
    if importlib.util.find_spec("boto3"):
        pythons["boto3"] = sys.executable
    for name, code in (("boto3", BOTO3), ("obstore", OBSTORE), ("s3fs", S3FS)):
        if name in pythons:
            found[name] = partial(_script, pythons[name], code)
    for name in wanted:
        if name not in found:
            print(f"{name} is not installed, or could not be: left out")
    return {name: found[name] for name in wanted if name in found}


def _script(python: str, code: str, way: str, local: Path, prefix: str) -> list[str]:
    return [python, "-W", "ignore", "-c", code, way, str(local), "bench", prefix]


def _own_pythons(folder: Path, wanted: Sequence[str]) -> dict[str, str]:
    """Environments with one tool each."""
    uv = where("uv")
    found: dict[str, str] = {}
    for name in [one for one in PINS if one in wanted] if uv else ():
        python = str(folder / name / "bin" / "python")
        commands = (
            [str(uv), "venv", "--quiet", "--python", sys.executable, str(folder / name)],
            [str(uv), "pip", "install", "--quiet", "--python", python, PINS[name]],
        )
        if not any(subprocess.run(one, check=False, timeout=600).returncode for one in commands):
            found[name] = python
    return found
