"""Lines of Chinese text with Latin words in it: between Chinese characters a line may end anywhere, in a word or
an option nowhere. textwrap, which knows blanks only, cuts both alike."""

import re

from jumar.cli.output import columns_of

_CLOSING = "，。；：、！？）”》…"
_OPENING = "（“《"
_CHINESE = "\u2e80-\u2fff\u3003-\u9fff\uff00-\uffef"
_LONGEST_BRACKET = 24
_UNIT = re.compile(
    rf"\s+|(?:\[[^\]\s]{{1,{_LONGEST_BRACKET}}}\]"
    rf"|[{_OPENING}]*(?:[^\s{_CHINESE}{_OPENING}{_CLOSING}\[]+|[^\s{_OPENING}{_CLOSING}]))[{_CLOSING}]*|."
)


def filled(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns, but where one word is longer."""
    lines = [""]
    for unit in _UNIT.findall(" ".join(text.split())):
        line = lines[-1] + unit
        if lines[-1] and columns_of(line.rstrip()) > width:
            lines[-1] = lines[-1].rstrip()
            lines.append(unit.lstrip())
        else:
            lines[-1] = line
    return lines
