"""Who may do what behind the S3 door: members share, `private-NAME` is the user's own."""

import contextlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.store.served import Served

from jumar.errors import BadInput, NotFound
from jumar.inject.moxing_path.jumar_s3 import S3, S3Error
from jumar.store.credentials import Credential, StoreConfig
from jumar.store.places import make_bucket, open_place
from jumar.store.public import public_prefixes, publish, set_public, unpublish
from jumar.store.rights import private_bucket

Act = Callable[[S3, str], object]

ACTS: dict[str, Act] = {
    "list": lambda s3, bucket: s3.page(bucket),
    "read": lambda s3, bucket: s3.head(bucket, "kept"),
    "range": lambda s3, bucket: s3.get(bucket, "kept", 0, 1).read(),
    "write": lambda s3, bucket: s3.put(bucket, "new", b"1", 1),
    "parts": lambda s3, bucket: _in_parts(s3, bucket),
    "copy here": lambda s3, bucket: s3.copy(bucket, "kept", bucket, "copied"),
    "copy away": lambda s3, bucket: s3.copy(bucket, "kept", "shared", "taken"),
    "delete": lambda s3, bucket: s3.delete(bucket, "to-delete"),
    "delete many": lambda s3, bucket: s3.delete_many(bucket, ["to-delete", "and-this"]),
    "open to the world": lambda s3, bucket: s3.put_policy(bucket, _everyone(bucket)),
    "delete the bucket": lambda s3, bucket: s3.delete(bucket, ""),
}
OBJECTS = frozenset(ACTS) - {"open to the world", "delete the bucket"}

# who, whose bucket: what they may do there.
ALLOWED: dict[tuple[str, str], frozenset[str]] = {
    ("ann", "shared"): OBJECTS,
    ("bob", "shared"): OBJECTS,
    ("ann", "private-ann"): OBJECTS,
    ("bob", "private-ann"): frozenset(),
    ("eve", "shared"): frozenset(),
    ("", "shared"): frozenset(),
    ("", "private-ann"): frozenset(),
}


def _in_parts(s3: S3, bucket: str) -> None:
    upload = s3.create_upload(bucket, "parts").id
    etag = s3.put_part(bucket, "parts", upload, 1, b"x", 1)
    assert len(s3.parts(bucket, "parts", upload)) == 1
    s3.complete_upload(bucket, "parts", upload, [etag])


def _everyone(bucket: str) -> str:
    return (
        '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", '
        f'"Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::{bucket}/*"]}}]}}'
    )


@pytest.fixture
def buckets(platform: Served) -> None:
    ann = platform.s3("ann")
    for bucket in ("shared", "private-ann"):
        with contextlib.suppress(S3Error):
            ann.create_bucket(bucket)
        for key in ("kept", "to-delete", "and-this"):
            ann.put(bucket, key, b"private", 7)


def may(act: Act, s3: S3, bucket: str) -> bool:
    try:
        act(s3, bucket)
    except S3Error as error:
        assert error.status == 403 or error.code == "AccessDenied", error
        return False
    return True


@pytest.mark.usefixtures("buckets")
@pytest.mark.parametrize(("who", "bucket"), list(ALLOWED))
def test_the_table_of_rights(platform: Served, who: str, bucket: str) -> None:
    # Who is not let in has no keys; their best try is as a stranger.
    s3 = platform.s3("" if who == "eve" else who)
    done = {name for name, act in ACTS.items() if may(act, s3, bucket)}
    assert done == ALLOWED[who, bucket]


@pytest.mark.usefixtures("buckets")
def test_others_private_buckets_are_not_even_listed(platform: Served) -> None:
    assert "private-ann" in platform.s3("ann").buckets()
    assert "private-ann" not in platform.s3("bob").buckets()
    assert "shared" in platform.s3("bob").buckets()
    with pytest.raises(S3Error):
        platform.s3("bob").create_bucket("private-eve")
    with pytest.raises(S3Error):
        platform.s3("").buckets()


@pytest.mark.usefixtures("buckets")
def test_administrators_may_all_but_delete_a_bucket_with_files_at_once(platform: Served) -> None:
    admin = platform.s3("admin")
    done = {
        name for name, act in ACTS.items() if name in OBJECTS and may(act, admin, "private-ann")
    }
    assert done == OBJECTS
    with pytest.raises(S3Error) as refused:
        admin.delete("private-ann", "")
    assert refused.value.code == "BucketNotEmpty"


def test_names_that_no_bucket_can_have_have_no_private_bucket() -> None:
    assert private_bucket("ann") == "private-ann"
    assert private_bucket("ann.b-2") == "private-ann.b-2"
    for name in ("Ann", "a_b", "ann-", "x" * 60):
        assert private_bucket(name) is None


def reads(s3: S3, bucket: str, key: str) -> bool:
    return may(lambda client, place: client.head(place, key), s3, bucket)


def test_strangers_read_what_is_published_and_nothing_else(platform: Served) -> None:
    config = platform.config()
    place = open_place("obs://open/data/", config)
    place.store.make_ready()
    for key in ("data/a b 名.txt", "data/deep/b", "database/c", "more/d", "e"):
        place.store.write(key, key.encode())
    publish(place, config)
    publish(open_place("obs://open/more/", config), config)
    assert public_prefixes(config, "obs", "open") == {"data/", "more/"}
    stranger = platform.s3("")
    readable = {
        key: reads(stranger, "open", key)
        for key in ("data/a b 名.txt", "data/deep/b", "database/c", "more/d", "e")
    }
    assert readable == {
        "data/a b 名.txt": True,
        "data/deep/b": True,
        "database/c": False,
        "more/d": True,
        "e": False,
    }
    with stranger.get("open", "data/a b 名.txt", 5, 3) as reading:
        assert reading.read() == b"a b"
    for act in ("list", "write", "delete"):
        assert not may(ACTS[act], stranger, "open")
    assert not may(lambda s3, bucket: s3.put(bucket, "data/x", b"1", 1), stranger, "open")
    unpublish(place, config)
    assert not reads(stranger, "open", "data/deep/b")
    assert reads(stranger, "open", "more/d")
    unpublish(open_place("obs://open/", config), config)
    assert not reads(stranger, "open", "more/d")
    assert public_prefixes(config, "obs", "open") == frozenset()


def test_a_folder_remembers_what_is_public(folder_config: StoreConfig) -> None:
    make_bucket("obs", "lab", folder_config)
    place = open_place("obs://lab/data", folder_config)
    set_public(folder_config, "obs", "lab", frozenset({"data/", "more/"}))
    assert public_prefixes(folder_config, "obs", "lab") == {"data/", "more/"}
    unpublish(place, folder_config)
    assert public_prefixes(folder_config, "obs", "lab") == {"more/"}
    with pytest.raises(NotFound, match="is not public"):
        unpublish(place, folder_config)
    assert (folder_config.builtin / "public.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("url", "error", "said"),
    [
        ("obs://lab/data/", BadInput, "not served over HTTP"),
        ("obs://lab/../up", BadInput, "cannot be a path"),
        ("/srv/data", BadInput, "not in a store"),
        ("obs://nosuch/", NotFound, "the bucket obs://nosuch does not exist"),
    ],
)
def test_what_nobody_could_read_is_not_published(
    folder_config: StoreConfig, url: str, error: type[Exception], said: str
) -> None:
    make_bucket("obs", "lab", folder_config)
    with pytest.raises(error, match=said):
        publish(open_place(url, folder_config), folder_config)
    assert public_prefixes(folder_config, "obs", "lab") == frozenset()


def test_a_name_that_policies_take_for_a_pattern_is_not_published(
    folder_config: StoreConfig,
) -> None:
    for name in ("a*", "a?b", "${aws:username}"):
        with pytest.raises(BadInput, match="wildcards"):
            publish(open_place(f"obs://lab/{name}/", folder_config), folder_config)
    assert public_prefixes(folder_config, "obs", "lab") == frozenset()


def test_a_server_without_policies_is_told(
    folder_config: StoreConfig, rclone_credential: Credential
) -> None:
    config = replace(folder_config, obs=rclone_credential)
    with pytest.raises(BadInput, match="does not support bucket policies"):
        publish(open_place("obs://lab/x/", config), config)
