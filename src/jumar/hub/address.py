"""`hub://KIND/OWNER/NAME@REVISION:PATH`: what of a repository a job refers to."""

import re
from dataclasses import dataclass

from jumar.errors import BadInput
from jumar.hub.names import Kind, check_path, kind_of
from jumar.hub.reading import MAIN

SCHEME = "hub://"
_FORM = re.compile(r"([a-z]+)/([^/:]+)/([^/@:]+)(?:@([^:]+))?(?::(.*))?", re.S)
_HINT = "write it like hub://dataset/ann/mnist, hub://model/ann/lenet@v1 or hub://…@main:folder"


@dataclass(frozen=True, slots=True)
class Address:
    """A repository at a revision, or a file or folder in it."""

    kind: Kind
    owner: str
    name: str
    revision: str = MAIN
    path: str = ""

    def __str__(self) -> str:
        path = f":{self.path}" if self.path else ""
        return f"{SCHEME}{self.kind}/{self.owner}/{self.name}@{self.revision}{path}"


def parse(text: str) -> Address:
    """The address that `text` is; BadInput where it is none."""
    match = _FORM.fullmatch(text.removeprefix(SCHEME))
    if not text.startswith(SCHEME) or match is None:
        raise BadInput(f"{text[:200]!r} is not the address of a repository", hint=_HINT)
    kind, owner, name, revision, path = match.groups()
    inner = path.strip("/") if path else ""
    if inner:
        check_path(inner)
    return Address(kind_of(kind), owner, name, revision or MAIN, inner)
