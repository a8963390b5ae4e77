"""A message as a chat takes it: the request to send, and what its answer means. Pure."""

import base64
import hashlib
import hmac
import json
import tomllib
import urllib.parse
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, cast

_MOST_ANSWER = 200


@cache
def templates() -> Mapping[str, Any]:
    """By kind of chat."""
    return tomllib.loads(files("jumar.notify").joinpath("templates.toml").read_text("utf-8"))


def request(kind: str, url: str, secret: str, text: str, now: float) -> tuple[str, bytes]:
    """The address and the body of a message; where there is a secret, signed with it."""
    template = templates()[kind]
    body = _filled(template["body"], text)
    how = template.get("sign")
    if secret and how == "query":
        # DingTalk: milliseconds, and the secret is both key and part of what is signed.
        stamp = str(int(now * 1000))
        sign = _signature(secret, f"{stamp}\n{secret}")
        joint = "&" if urllib.parse.urlsplit(url).query else "?"
        url += joint + urllib.parse.urlencode({"timestamp": stamp, "sign": sign})
    elif secret and how == "body":
        # Feishu: seconds, and what is signed is empty.
        stamp = str(int(now))
        body = {"timestamp": stamp, "sign": _signature(f"{stamp}\n{secret}", ""), **body}
    return url, json.dumps(body, ensure_ascii=False).encode()


def refusal(kind: str, status: int, answer: bytes) -> str | None:
    """Why a message was not taken; None if it was. Nothing of the address is in it."""
    if not 200 <= status < 300:
        return f"HTTP status {status}"
    field = templates()[kind].get("accepted")
    if field is None:
        return None
    try:
        said = json.loads(answer)
    except (ValueError, RecursionError):
        return "the answer is not JSON"
    code = cast("dict[str, Any]", said).get(field) if isinstance(said, dict) else None
    if code in (0, "0"):
        return None
    return f"refused: {answer[:_MOST_ANSWER].decode('utf-8', 'replace')}"


def takes_secret(kind: str) -> bool:
    """Whether the chat knows signatures."""
    return "sign" in templates()[kind]


def _signature(key: str, message: str) -> str:
    return base64.b64encode(hmac.digest(key.encode(), message.encode(), hashlib.sha256)).decode()


def _filled(value: Any, text: str) -> Any:
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        return {name: _filled(part, text) for name, part in parts.items()}
    return text if value == "{text}" else value
