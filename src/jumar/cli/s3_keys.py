"""Keys for the S3 door in the formats that S3 clients read."""

import shlex
from pathlib import Path

from jumar.spec.records import ModelArtsKeys, S3Keys

TOOLS = ("rclone", "obsutil")


def shown_for(tool: str, keys: S3Keys, certificate: Path | None = None) -> str:
    """Shell variables, or the program's configuration; `certificate` is the file to trust the door by."""
    if tool == "rclone":
        return _lines("[jumar]", " = ", _rclone(keys))
    if tool == "obsutil":
        return _lines("", "=", _obsutil(keys))
    values = _env(keys) | ({} if certificate is None else {"AWS_CA_BUNDLE": str(certificate)})
    return _exports(values)


def modelarts_variables(keys: ModelArtsKeys) -> str:
    """Shell variables that the SDK of ModelArts reads; no client has to be edited."""
    return _exports(
        {
            "HUAWEICLOUD_SDK_AK": keys.ak,
            "HUAWEICLOUD_SDK_SK": keys.sk,
            "HUAWEICLOUD_SDK_PROJECT_ID": keys.project_id,
            "HUAWEICLOUD_SDK_REGION_MODELARTS_CN_NORTH_4": keys.endpoint,
        }
    )


def _exports(values: dict[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def _env(keys: S3Keys) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": keys.access_key,
        "AWS_SECRET_ACCESS_KEY": keys.secret_key,
        "AWS_REGION": keys.region,
        "AWS_DEFAULT_REGION": keys.region,
        "AWS_ENDPOINT_URL": keys.endpoint,
        # s5cmd uses a name of its own.
        "S3_ENDPOINT_URL": keys.endpoint,
    }


def _rclone(keys: S3Keys) -> dict[str, str]:
    return {
        "type": "s3",
        "provider": "SeaweedFS",
        "access_key_id": keys.access_key,
        "secret_access_key": keys.secret_key,
        "endpoint": keys.endpoint,
        "region": keys.region,
    }


def _obsutil(keys: S3Keys) -> dict[str, str]:
    return {"endpoint": keys.endpoint, "ak": keys.access_key, "sk": keys.secret_key}


def _lines(heading: str, between: str, values: dict[str, str]) -> str:
    rows = [*([heading] if heading else []), *(f"{k}{between}{v}" for k, v in values.items())]
    return "".join(f"{row}\n" for row in rows)
