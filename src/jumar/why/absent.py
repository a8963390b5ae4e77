"""Which expression of a line of source is None: what Python's marks (`~~^^`) point at.

Without marks a line tells it only if there is one place that it can be."""

import re

_MARKS = re.compile(r"\s*(?P<marks>[~^]+)\s*")
_ATTRIBUTE = re.compile(r"'NoneType' object has no attribute '(?P<name>\w+)'")
_SUBSCRIPT = re.compile(r"'NoneType' object (?:is not subscriptable|does not support item)")
_CALL = "'NoneType' object is not callable"
_OPERANDS = re.compile(r"unsupported operand type\(s\) for (?P<sign>[^:]+): '(?P<left>\w+)' and")
# A statement that is one call of a name: `trainer = trainer_cls(`.
_ONE_CALL = re.compile(
    r"(?:return |await |[\w.,\[\]'\" ]+ = )?(?P<called>[A-Za-z_][\w.]*(?:\[[^\[\]()]+\])*)\([^()]*\)?:?"
)
# A name, with what is asked of it; no literal and no condition.
_EXPRESSION = re.compile(r"[A-Za-z_][\w.\[\]()'\", =*/:{}-]{0,90}")
_ASSIGNED = re.compile(r"^(?:return |[\w.,\[\]'\" ]+ = )")
_OPERAND = re.compile(r"[A-Za-z_][\w.]*(?:\[[^\[\]]+\])*|\d[\d.]*")
_NONE = "NoneType"
_BOTH = 2


def none_at(source: str, below: str, message: str) -> str:
    """The expression that is None, in the last line of source that a stack quotes; empty if that is not sure.

    `source` and `below` have the blanks that they begin with: the marks stand below what they are about."""
    if _NONE not in message:
        return ""
    found = _MARKS.fullmatch(below)
    # Wide letters take two columns in some versions.
    if found is not None and source.isascii():
        start, end = found.span("marks")
        value = _pointed(source[start:end], found["marks"], message)
    else:
        value = _alone(source.strip(), message)
    value = value.strip()
    is_whole = value.count("(") == value.count(")") and value.count("[") == value.count("]")
    return value if is_whole and _EXPRESSION.fullmatch(value) else ""


def _alone(source: str, message: str) -> str:
    """What has to be None, since the line has one place only at which it can be asked for what the message says."""
    if _CALL in message:
        one = _ONE_CALL.fullmatch(source)
        return "" if one is None else one["called"]
    attribute = _ATTRIBUTE.search(message)
    if attribute is not None:
        asked = [found.start() for found in re.finditer(rf"\.{attribute['name']}\b", source)]
        return _primary(source[: asked[0]]) if len(asked) == 1 else ""
    operands = _OPERANDS.search(message)
    if operands is None:
        return ""
    sides = _ASSIGNED.sub("", source).split(operands["sign"])
    is_plain = len(sides) == _BOTH and all(_OPERAND.fullmatch(side.strip()) for side in sides)
    return sides[operands["left"] != _NONE] if is_plain else ""


def _primary(text: str) -> str:
    """The expression that a text ends with: names, dots and whole parentheses."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        letter = text[at]
        depth += (letter in ")]") - (letter in "([")
        if depth < 0 or (depth == 0 and not (letter.isalnum() or letter in "_.([")):
            return text[at + 1 :]
    return text


def _pointed(segment: str, marks: str, message: str) -> str:
    before = segment[: len(marks) - len(marks.lstrip("~"))]
    attribute = _ATTRIBUTE.search(message)
    if attribute is not None:
        # The name that is asked for stands last.
        whole = segment.rstrip()
        return whole.removesuffix(f".{attribute['name']}") if _ends(whole, attribute) else ""
    if _SUBSCRIPT.search(message):
        return before
    if _CALL in message:
        return before or _called(segment)
    operands = _OPERANDS.search(message)
    if operands is None:
        return ""
    return before if operands["left"] == _NONE else segment[len(marks.rstrip("~")) :]


def _ends(whole: str, attribute: re.Match[str]) -> bool:
    return whole.endswith(f".{attribute['name']}")


def _called(segment: str) -> str:
    """What stands before the parentheses that the whole of it ends with, or the one that the line leaves open."""
    opened: list[int] = []
    last = -1
    for at, letter in enumerate(segment):
        if letter == "(":
            opened.append(at)
        elif letter == ")" and opened:
            last = opened.pop()
    return segment[: opened[0] if opened else max(last, 0)]
