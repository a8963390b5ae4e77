"""The generation of a chip, from its name and the layout of the table that lists it.

The generations, as rank tables and core binding tell them apart: `310`, `310B`, `310P`, `910` (the
first one, also sold as 910A and 910B), `A2` (910B1 and later), `A3` (two dies per board), `A5`."""

import re

_RULES = (
    (re.compile(r"310p\w*"), "310P"),
    (re.compile(r"310b\w*"), "310B"),
    (re.compile(r"310\w*"), "310"),
    (re.compile(r"95\d\w*|910_?95\w*"), "A5"),
    (re.compile(r"910_?93\w*|910c\w*"), "A3"),
    (re.compile(r"910b\d\w*"), "A2"),
    (re.compile(r"910(?:a|b|pro\w*|premium\w*)"), "910"),
)


def generation_of(name: str, *, has_phy_ids: bool = False) -> str | None:
    """`910B` is the first generation, `910B3` is A2, `Ascend910` with a Phy-ID column is A3."""
    plain = re.sub(r"[\s.-]", "", name.lower()).removeprefix("ascend").removeprefix("davinci")
    for pattern, generation in _RULES:
        if pattern.fullmatch(plain):
            return generation
    if plain == "910":
        return "A3" if has_phy_ids else "910"
    return None
