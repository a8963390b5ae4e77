"""The pages' words, in each language, and which language a visitor gets."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, cast

from fastapi import Request
from markupsafe import Markup

COOKIE = "jumar_lang"
DEFAULT = "en"
LANGUAGES = {"en": "en", "zh": "zh-CN"}


class Catalogue:
    """The words of one language. Calling it gives the words of a key."""

    def __init__(self, language: str, words: Mapping[str, str]) -> None:
        self.language = language
        self.tag = LANGUAGES[language]
        self.words = words

    def __call__(self, key: str, **values: object) -> str:
        """The words of `key`, with `values` put in; a value that is a piece of a page stays one."""
        words = self.words[key]
        if any(isinstance(value, Markup) for value in values.values()):
            return Markup(words).format(**values)
        return words.format(**values) if values else words

    def section(self, name: str) -> dict[str, str]:
        """All words whose keys begin with `name`."""
        prefix = f"{name}."
        return {k.removeprefix(prefix): v for k, v in self.words.items() if k.startswith(prefix)}


@cache
def catalogue(language: str) -> Catalogue:
    """The words of one language."""
    text = files("jumar.server.web").joinpath(f"locale/{language}.toml").read_text("utf-8")
    words: dict[str, str] = {}
    for section, value in tomllib.loads(text).items():
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value).items()
            words.update({f"{section}.{key}": str(entry) for key, entry in entries})
        else:
            words[section] = str(value)
    return Catalogue(language, words)


def choose(request: Request) -> Catalogue:
    """What the visitor asked for: in the address, in the cookie, in the browser's settings."""
    for wanted in (request.query_params.get("lang"), request.cookies.get(COOKIE)):
        if wanted in LANGUAGES:
            return catalogue(wanted)
    return catalogue(_preferred(request.headers.get("accept-language", "")))


def _preferred(header: str) -> str:
    ranked: list[tuple[float, str]] = []
    for part in header.split(",")[:20]:
        tag, _, quality = part.strip().partition(";q=")
        try:
            ranked.append((float(quality or 1), tag.split("-")[0].lower()))
        except ValueError:
            continue
    # A stable sort: among equals, the first named wins.
    for _, language in sorted(ranked, key=lambda item: -item[0]):
        if language in LANGUAGES:
            return language
    return DEFAULT
