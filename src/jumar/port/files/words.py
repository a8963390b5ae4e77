"""Shell text, read as far as porting needs it: where a word ends, what single quotes keep.

Quotes, backslashes, comments, `$(…)`, `${…}`, backticks and here-documents; nothing is expanded."""

import re

from jumar.port.patterns import lazy_pattern

_CLOSES = {"(": ")", "{": "}"}
_ENDS = frozenset(" \t\r\n;&|)<>")
_PLACEHOLDER = lazy_pattern(r"<[\w. -]+>")
_HERE = lazy_pattern(r"<<-?\s*(?P<quote>['\"]?)(?P<word>[A-Za-z_]\w*)(?P=quote)")


def end_of_word(text: str, start: int) -> int | None:
    """Where the word that starts here ends; None if it goes on after this text."""
    at = start
    while at < len(text) and text[at] not in _ENDS:
        placed = _after(text, at)
        if placed is None:
            return None
        at = placed
        shown = _PLACEHOLDER.match(text, at)
        if shown is not None:
            # In documents: `CUDA_VISIBLE_DEVICES=<card>`.
            at = shown.end()
    if at == start:
        shown = _PLACEHOLDER.match(text, at)
        return shown.end() if shown is not None else at
    return at


def _after(text: str, at: int) -> int | None:
    """Where the next part of a word ends: one character, a quoted text or a substitution."""
    char = text[at]
    if char == "\\":
        return min(at + 2, len(text))
    if char in "'`":
        end = text.find(char, at + 1)
        return end + 1 if end >= 0 else None
    if char == '"':
        return _within(text, at + 1, '"')
    if char == "$" and text[at + 1 : at + 2] in ("(", "{"):
        return _within(text, at + 2, _CLOSES[text[at + 1]])
    return at + 1


def _within(text: str, at: int, closing: str) -> int | None:
    depth = 0
    while at < len(text):
        char = text[at]
        if char == closing and depth == 0:
            return at + 1
        if closing == ")" and char in "()":
            depth += 1 if char == "(" else -1
        plain = closing == '"' and char in "'\""
        placed = at + 1 if plain else _after(text, at)
        if placed is None:
            return None
        at = placed
    return None


def kept_literally(text: str) -> list[tuple[int, int]]:
    """The spans between single quotes, where `$(…)` is not a command."""
    spans: list[tuple[int, int]] = []
    waiting: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        here = _HERE.match(text, at) if char == "<" else None
        if here is not None:
            waiting.append(here["word"])
            at = here.end()
        elif char == "\n" and waiting:
            at = _after_document(text, at + 1, waiting.pop(0))
        elif char == "#" and (at == 0 or text[at - 1] in " \t\n;"):
            at = _found(text, "\n", at)
        elif char == "'":
            end = _found(text, "'", at + 1)
            spans.append((at, end))
            at = end + 1
        else:
            # In double quotes an apostrophe is only a character.
            at = (_within(text, at + 1, '"') if char == '"' else None) or at + (
                2 if char == "\\" else 1
            )
    return spans


def _after_document(text: str, at: int, word: str) -> int:
    closing = re.compile(rf"^\s*{word}[ \t]*$", re.MULTILINE).search(text, at)
    return closing.end() if closing is not None else len(text)


def _found(text: str, what: str, start: int) -> int:
    end = text.find(what, start)
    return end if end >= 0 else len(text)
