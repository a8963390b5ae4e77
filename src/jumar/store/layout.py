"""The folders that the usual recipes expect in a bucket, and what the world may read."""

import json
from pathlib import Path
from typing import Any, cast

from jumar.errors import BadInput, HomeUnusable
from jumar.store.accounts import StoreConfig, write_private
from jumar.store.base import Place
from jumar.store.folder import FolderStore, check_path_key
from jumar.store.objects import ObjectStore
from jumar.store.places import make_bucket, open_place
from jumar.store.url import Url

FOLDERS = (
    "dataset/",
    "dataset_unzip/",
    "dataset_unzip_mini/",
    *(f"free_train/{name}/" for name in ("code", "data", "log", "out", "ckpt")),
)
PUBLIC_FILE = "public.json"


def make_layout(url: Url, config: StoreConfig) -> tuple[str, ...]:
    """Make the bucket and its folders; what is there stays."""
    if url.is_file or url.key.strip("/"):
        raise BadInput(f"{url} is not a bucket", hint="jumar store layout obs://BUCKET")
    make_bucket(url.scheme, url.bucket, config)
    store = open_place(url, config).store
    for folder in FOLDERS:
        store.make_folder(folder)
    return FOLDERS


def publish(place: Place, config: StoreConfig) -> None:
    """Let everybody read what is under a prefix."""
    if isinstance(place.store, ObjectStore):
        store = place.store
        policy = read_policy(store.bucket, place.prefix)
        store.call(place.prefix, lambda: store.s3.put_policy(store.bucket, policy))
    elif isinstance(place.store, FolderStore) and not place.url.is_file:
        prefixes = public_prefixes(config.builtin)
        check_path_key(f"{place.prefix}x")
        mine = sorted({*prefixes.get(place.url.bucket, ()), place.prefix})
        write_private(config.builtin / PUBLIC_FILE, {**prefixes, place.url.bucket: mine})
    else:
        raise BadInput(f"{place.url} is a folder of this machine, not a store")


def read_policy(bucket: str, prefix: str) -> str:
    """The policy that S3 servers and OBS take for "anyone may read this"."""
    statement = {
        "Sid": "JumarPublicRead",
        "Effect": "Allow",
        "Principal": {"AWS": ["*"]},
        "Action": ["s3:GetObject"],
        "Resource": [f"arn:aws:s3:::{bucket}/{prefix}*"],
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def public_prefixes(builtin: Path) -> dict[str, list[str]]:
    """Bucket to prefixes that anyone may read, in the built-in store."""
    try:
        values: Any = json.loads((builtin / PUBLIC_FILE).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise HomeUnusable(f"cannot read {builtin / PUBLIC_FILE}: {error}") from error
    return cast("dict[str, list[str]]", values)


def is_public(builtin: Path, bucket: str, key: str) -> bool:
    """Whether anyone may read this object of the built-in store."""
    return any(key.startswith(prefix) for prefix in public_prefixes(builtin).get(bucket, ()))
