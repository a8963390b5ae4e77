"""Moments and lengths of time in few words. `static/app.js` says them the same way."""

from datetime import UTC, datetime

from markupsafe import Markup

from jumar.server.web.i18n import Catalogue

_BRIEF_S = 10
_UNITS_S = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def span(seconds: float, t: Catalogue) -> str:
    """`3m 10s`: the two largest units that say something."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, unit_s in _UNITS_S:
        number, left = divmod(left, unit_s)
        if number:
            parts.append(t(f"time.{unit}", n=number))
        elif parts:
            break
        if len(parts) == 2:
            break
    return t("time.join").join(parts) or t("time.s", n=0)


def coarse_span(seconds: float, t: Catalogue, *, nearest: bool = False) -> str:
    """`3m`: the largest unit alone."""
    left = max(1, int(seconds))
    unit, unit_s = next((unit, size) for unit, size in _UNITS_S if left >= size)
    return t(f"time.{unit}", n=(left + unit_s // 2 if nearest else left) // unit_s)


def moment(at: float, now: float, t: Catalogue) -> Markup:
    """`5m ago`, with the full date when the pointer rests on it."""
    distance = now - at
    if abs(distance) < 5:
        words = t("time.now")
    elif distance > 0:
        words = t("time.ago", span=coarse_span(distance, t))
    else:
        # What ends 30 days after a moment ago does not end "in 29d".
        words = t("time.ahead", span=coarse_span(-distance, t, nearest=True))
    when = datetime.fromtimestamp(at, UTC)
    return Markup('<time datetime="{}" title="{}" data-at="{:.0f}">{}</time>').format(
        when.isoformat(timespec="seconds"), f"{when:%Y-%m-%d %H:%M:%S} UTC", at, words
    )


def elapsed(start: float, end: float | None, now: float, t: Catalogue) -> Markup:
    """How long something took, or, without an end, has taken until now."""
    if end is None:
        return Markup('<span data-since="{:.1f}">{}</span>').format(start, span(now - start, t))
    took = max(0.0, end - start)
    words = t("time.s", n=f"{took:.1f}") if took < _BRIEF_S else span(took, t)
    return Markup("<span>{}</span>").format(words)
