"""The frame of every page, and sentences in both languages, of which the page shows one.

Written with f-strings and markupsafe: importing a template engine and compiling its templates would take
a fifth of a small port's time. Nothing is loaded from anywhere."""

from collections.abc import Iterable
from pathlib import Path

from markupsafe import escape

from jumar.port.records import Words


def both(words: Words) -> str:
    """A sentence in both languages."""
    en, zh = words
    return f'<span class="en">{escape(en)}</span><span class="zh">{escape(zh)}</span>'


def say(en: str, zh: str) -> str:
    """A sentence given as two."""
    return both(Words(en, zh))


def tile(number: object, words: str) -> str:
    """A figure with what it counts."""
    return f"<div class='tile'><b>{escape(number)}</b>{words}</div>\n"


def page(
    name: str,
    parts: Iterable[str],
    *,
    title: str = "",
    subtitle: str = "",
    summary: str = "",
    filters: str = "",
) -> str:
    """A self-contained page with a field that searches it."""
    here = Path(__file__).parent
    style, script = ((here / file).read_text("utf-8") for file in ("page.css", "page.js"))
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title or name)}</title>
<style>{style}</style></head><body><main>
<header><h1>{escape(name)}</h1>{subtitle}
<button id='lang' type='button'>中文 / English</button></header>
{summary}<div class='bar'><input id='search' type='search' aria-label='search' placeholder='search · 搜索'>
{filters}</div><p id='none' class='soft' hidden>{say("No matches.", "没有匹配的内容。")}</p>
{"".join(parts)}</main><script>{script}</script></body></html>"""
