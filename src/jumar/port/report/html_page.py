"""The frame of every page, and words in both languages, of which the page shows one.

A button switches; nothing is loaded from anywhere."""

from collections.abc import Iterable
from html import escape
from pathlib import Path

from jumar.port.records import Words

LANGUAGE_BUTTON = "<button id='lang' type='button'>中文 / English</button>"


def say(words: Words) -> str:
    """A sentence."""
    return f'<span class="en">{escape(words.en)}</span><span class="zh">{escape(words.zh)}</span>'


def both(en: str, zh: str) -> str:
    """A sentence given as two."""
    return say(Words(en, zh))


def search_bar(buttons: Iterable[str] = ()) -> str:
    """The field that filters the page."""
    return "".join(
        [
            "<div class='bar'><input id='search' type='search' aria-label='search' ",
            "placeholder='search · 搜索'>",
            *buttons,
            "</div><p id='none' class='soft' hidden>",
            both("Nothing fits.", "没有匹配的内容。"),
            "</p>",
        ]
    )


def page(title: str, parts: Iterable[str]) -> str:
    """A whole self-contained page."""
    here = Path(__file__).parent
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{(here / 'page.css').read_text('utf-8')}</style></head><body><main>",
            *parts,
            f"</main><script>{(here / 'page.js').read_text('utf-8')}</script></body></html>",
        ]
    )
