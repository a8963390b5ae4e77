"""Which files belong to a repository's tests."""

import re
from collections.abc import Iterable

from jumar.port.patterns import lazy_pattern

_FOLDER = lazy_pattern(r"(?:^|/)(?:unit_?|integration_?)?tests?(?:_\w+)?/", re.IGNORECASE)
_FILE = lazy_pattern(r"(?:^|/)(?:test_\w+|\w+_test)\.py$")
_TOOLS = frozenset({"pytest", "unittest"})


def is_test(path: str, imports: Iterable[str]) -> bool:
    """Whether a file is part of the tests; a script called `test.py` is not."""
    if path.rpartition("/")[2] == "conftest.py" or _FOLDER.search(path):
        return True
    return bool(_FILE.search(path)) and not _TOOLS.isdisjoint(imports)
