"""The results of porting as data: edits, changes, findings."""

from enum import StrEnum
from typing import NamedTuple


class Words(NamedTuple):
    """One sentence in the two languages of the report."""

    en: str
    zh: str


class Severity(StrEnum):
    """How severe a finding is."""

    INFO = "info"
    LIMIT = "limit"
    WORK = "work"


class Effort(StrEnum):
    """How long a person needs to fix it."""

    NONE = "none"
    MINUTES = "minutes"
    HOURS = "hours"
    REWRITE = "rewrite"


class Kind(StrEnum):
    """What a finding is about; decides which of the vendor's files lists it."""

    FILE = "file"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"
    PRECISION = "precision"
    PERFORMANCE = "performance"
    PACKAGE = "package"
    DEVICE = "device"


class Piece(NamedTuple):
    """One replacement in the text; `start == end` inserts."""

    start: int
    end: int
    text: str


class Proposal(NamedTuple):
    """What a rule wants to change at one place: all pieces or none."""

    start: int
    end: int
    pieces: tuple[Piece, ...]
    needs: frozenset[str] = frozenset()
    """Names of the prelude (see `prelude.py`) that the new text uses."""


WHOLE_FILE = "file"
"""The subject of a finding that is about a file as it is."""


class Remark(NamedTuple):
    """What a rule reports about one place without changing it."""

    start: int
    end: int
    severity: Severity
    effort: Effort
    kind: Kind
    subject: str
    """The API, package or variable that it is about."""
    why: Words
    advice: Words


class Guard(NamedTuple):
    """A check for CUDA that stays, and why."""

    reason: str
    """What only CUDA has, or nothing if there are just switches without effect."""
    spans: tuple[tuple[int, int], ...]
    """The code behind it."""
    stops: bool = False
    """Whether there is no other branch: what is not CUDA gets an error."""


class Change(NamedTuple):
    """An edit that was made, as the report shows it."""

    code: str
    line: int
    end_line: int
    before: str
    after: str
    operation: str
    """`INSERT`, `MODIFY` or `DELETE`, in the vendor's words."""


class Finding(NamedTuple):
    """A place for a person to look at, as the report shows it."""

    code: str
    severity: Severity
    effort: Effort
    kind: Kind
    line: int
    end_line: int
    column: int
    subject: str
    source: str
    why: Words
    advice: Words


class ApiUse(NamedTuple):
    """A torch name that a file uses and how often, for the inventory."""

    name: str
    line: int
    times: int


class FileResult(NamedTuple):
    """The result for one file; `ported` is None if it stays byte-identical."""

    path: str
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    ported: bytes | None = None
    uses: tuple[ApiUse, ...] = ()
    imports: tuple[str, ...] = ()
    """Top-level packages that the file imports."""
    helpers: tuple[tuple[str, str], ...] = ()
    """Helper modules that the file imports: (folder to put it in, module)."""
    extra: tuple[tuple[str, bytes], ...] = ()
    """Further files to write, such as a launch script: (path, content)."""
