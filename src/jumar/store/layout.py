"""The folders that the usual recipes expect in a bucket."""

from jumar.errors import BadInput
from jumar.store.credentials import StoreConfig
from jumar.store.places import Url, make_bucket, open_place

FOLDERS = (
    "dataset/",
    "dataset_unzip/",
    "dataset_unzip_mini/",
    *(f"free_train/{name}/" for name in ("code", "data", "log", "out", "ckpt")),
)


def make_layout(url: Url, config: StoreConfig) -> tuple[str, ...]:
    """Create the bucket and its folders; existing ones stay."""
    if url.is_file or url.key.strip("/"):
        raise BadInput(f"{url} is not a bucket", hint="jumar store layout obs://BUCKET")
    make_bucket(url.scheme, url.bucket, config)
    store = open_place(url, config).store
    for folder in FOLDERS:
        store.make_folder(folder)
    return FOLDERS
