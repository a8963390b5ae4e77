"""The sentences of each language, and how values are put into them."""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, cast

from jumar.spec.causes import Form, Values, best_form

LANGUAGES = ("en", "zh")


@cache
def catalogue(language: str) -> Mapping[str, Any]:
    """All sentences of one language."""
    return tomllib.loads(files("jumar.words").joinpath(f"{language}.toml").read_text("utf-8"))


def phrase(language: str, section: str, name: str, /, **values: object) -> str:
    """A phrase that has one form only."""
    return cast("str", catalogue(language)[section][name]).format(**values)


def templates(language: str, section: str, name: str, form: Form) -> Mapping[str, str]:
    """The sentences for this set of values: `other`, and perhaps one for `none` and for `one`."""
    found = cast("str | dict[str, Any]", catalogue(language)[section][name])
    if isinstance(found, dict):
        found = cast("str | dict[str, Any]", found.get("+".join(form) or "plain", found))
    return {"other": found} if isinstance(found, str) else found


def sentence(
    language: str, section: str, name: str, forms: Iterable[Form], values: Values, **derived: str
) -> str | None:
    """The sentence that these values allow, None where they allow none.

    `derived` are phrases of this language that were made of values."""
    form = best_form(forms, values)
    if form is None:
        return None
    found = templates(language, section, name, form)
    # The first value is the one that is counted, where the words depend on a number.
    number = {0: "none", 1: "one"}.get(cast("int", values[form[0]]), "other") if form else "other"
    return found.get(number, found["other"]).format(**{**derived, **values})
