"""Commands that install CUDA builds: pip, uv, conda. Each package gets its own advice."""

from collections.abc import Iterable, Iterator

from jumar.port.distributions import OTHER_BUILD, TORCH_BUILD, Tied, is_torch, tied
from jumar.port.files.lines import LineEdits
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Severity

_INSTALL = lazy_pattern(
    r"\b(?:conda|mamba|micromamba|pip3?|uv\s+add)\s(?:[^|;&#]*\s)?(?:(?<=add\s)|install\s|create\s)"
    r"(?P<what>[^|;&#]*)"
)
_BY_FUNCTION = lazy_pattern(
    r"^\s*\w+\s+(?P<what>[^|;&#]*--(?:extra-)?index-url[ =][\"']?\S*/whl/(?:\w+/)?cu\d+[^|;&#]*)"
)
"""A function of the script that calls pip: `install_quietly torch --index-url …/whl/cu128`."""
_FOR_CUDA = lazy_pattern(
    r"/whl/(?:\w+/)?cu\d+|\bnvidia\.com/|(?<!\S)(?:-c|--channel)[ =][\"']?nvidia(?![\w-])"
)
_TAKES_VALUE = lazy_pattern(
    r"-[a-z]|--(?:[\w-]*url|find-links|channel|requirement|constraint|target|name|file|python)"
)
_SWITCHES = frozenset({"-U", "-q", "-y", "-v", "-e"})
"""Options of one letter that take no value, or a requirement."""
_EXTRA = lazy_pattern(r"[\w.-]+\[(?P<names>[\w,.-]+)\]")


def report(
    lines: Iterable[tuple[int, str]], code: str, edits: LineEdits, severity: Severity
) -> None:
    """Report what lines (number from 0, text) install that is tied to CUDA."""
    for number, line in lines:
        told: set[str] = set()
        for known in _installed(line):
            if known.advice.en not in told:
                told.add(known.advice.en)
                edits.find(code, number + 1, line, known.subject, known.why, known.advice, severity)


def _installed(line: str) -> Iterator[Tied]:
    for match in list(_INSTALL.finditer(line)) or _BY_FUNCTION.finditer(line):
        words = list(_requirements(match["what"]))
        found = [known for known in map(tied, words) if known is not None]
        libraries = [known for known in found if known.is_library]
        with_torch = any(map(is_torch, words))
        if with_torch and (libraries or _FOR_CUDA.search(match["what"])):
            # CUDA's libraries are there for torch.
            found = [TORCH_BUILD, *(known for known in found if not known.is_library)]
        yield from found
        if not found and _FOR_CUDA.search(match["what"]):
            yield OTHER_BUILD


def _requirements(what: str) -> Iterator[str]:
    """The words that name packages, and the extras that they ask for."""
    is_value = False
    for raw in what.split():
        word = raw.strip("\"'`,")
        if not is_value and not word.startswith("-"):
            is_path = "/" in word and "::" not in word and "://" not in word
            yield word.rstrip("/").rpartition("/")[2] if is_path else word
            extras = _EXTRA.match(word)
            yield from extras["names"].split(",") if extras is not None else ()
        is_value = _TAKES_VALUE.fullmatch(raw) is not None and raw not in _SWITCHES
