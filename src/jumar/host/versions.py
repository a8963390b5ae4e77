"""Version numbers as Ascend software writes them: `8.0.RC3`, `7.0.RC1.alpha003`, `2.1.0.post8`.

One total order for CANN releases and Python packages. Unlike PEP 440, `8.0.0.beta1` comes after
`8.0.RC3`: a CANN candidate is a separate release, and alpha and beta are pre-releases of what
precedes them. Local parts (`+cpu`) are kept and never compared."""

import re
from dataclasses import dataclass, field
from enum import IntEnum

from jumar.errors import BadInput

_NUMBERS = re.compile(r"v?(\d{1,9}(?:\.\d{1,9})*)")
_PART = re.compile(r"[.\-_]?(?:(dev|alpha|beta|rc|post|a|b)[.\-_]?(\d{0,9})|(?<=[.\-_])(\d{1,9}))")


class _Rank(IntEnum):
    DEV = 0
    ALPHA = 1
    BETA = 2
    CANDIDATE = 3
    END = 4
    POST = 5
    NUMBER = 6


_WORDS = {
    "dev": _Rank.DEV,
    "a": _Rank.ALPHA,
    "alpha": _Rank.ALPHA,
    "b": _Rank.BETA,
    "beta": _Rank.BETA,
    "rc": _Rank.CANDIDATE,
    "post": _Rank.POST,
}
_EDITIONS = (_Rank.DEV, _Rank.ALPHA, _Rank.BETA)
_END = (_Rank.END, 0)


@dataclass(frozen=True, order=True)
class Version:
    """A comparable version; `str()` returns it as it was written."""

    parts: tuple[tuple[int, int], ...]
    text: str = field(compare=False)
    local: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Parse a version, or raise BadInput."""
        written = text.strip()
        public, _, local = written.lower().partition("+")
        match = _NUMBERS.match(public)
        if match is None:
            raise _not_a_version(text)
        parts: list[tuple[int, int]] = [(_Rank.NUMBER, int(n)) for n in match[1].split(".")]
        place = match.end()
        while place < len(public):
            match = _PART.match(public, place)
            if match is None:
                raise _not_a_version(text)
            if match[3] is not None:
                parts.append((_Rank.NUMBER, int(match[3])))
            else:
                parts.append((_WORDS[match[1]], int(match[2] or 0)))
            place = match.end()
        return cls((*parts, _END), written, local)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers before the first letter: (8, 0) of `8.0.RC3`."""
        found: list[int] = []
        for rank, number in self.parts:
            if rank != _Rank.NUMBER:
                break
            found.append(number)
        return tuple(found)

    @property
    def release(self) -> "Version":
        """Without a trailing alpha or beta: `7.0.RC1` of `7.0.RC1.alpha003`; otherwise itself."""
        kept = self.parts[:-1]
        while kept and kept[-1][0] in _EDITIONS:
            kept = kept[:-1]
        if len(kept) == len(self.parts) - 1:
            return self
        return Version((*kept, _END), _spelled(kept))

    def starts_with(self, prefix: "Version") -> bool:
        """Whether `prefix` is a shorter form of this version, like `2.7` for `2.7.1.post2`."""
        head = prefix.parts[:-1]
        return self.parts[: len(head)] == head


def _spelled(parts: tuple[tuple[int, int], ...]) -> str:
    words = {_Rank.CANDIDATE: "RC", _Rank.POST: "post", _Rank.NUMBER: ""}
    return ".".join(f"{words[_Rank(rank)]}{number}" for rank, number in parts)


def _not_a_version(text: str) -> BadInput:
    return BadInput(
        f"{text!r} is not a version number", hint="write it like 2.7.1, 2.1.0.post8 or 8.0.RC3"
    )


def parse_or_none(text: str | None) -> Version | None:
    """The version in `text`, or None if there is none."""
    if not text:
        return None
    try:
        return Version.parse(text)
    except BadInput:
        return None
