"""Moments on pages."""

import pytest

from jumar.server.web.i18n import catalogue
from jumar.server.web.times import moment


@pytest.mark.parametrize(
    ("ahead_s", "words"),
    [
        (30 * 86400 - 20, "in 30d"),
        (29 * 86400, "in 29d"),
        (3500, "in 58m"),
        (-86400 * 2 + 9, "1d ago"),
    ],
)
def test_what_has_just_been_set_to_30_days_ends_in_30_days(ahead_s: float, words: str) -> None:
    assert f">{words}<" in moment(ahead_s + 1e9, 1e9, catalogue("en"))
