"""ARCHITECTURE.md says of each room what it imports: here that is held against the code."""

import re
from collections import defaultdict
from pathlib import Path

import grimp

PAGE = Path(__file__).parents[2] / "ARCHITECTURE.md"
ROW = re.compile(r"^\| `(\w+)(?:\.py)?` \| .* \| ([^|]*) \|$", re.M)


def real_imports() -> dict[str, set[str]]:
    graph = grimp.build_graph("jumar")
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module in graph.modules - {"jumar"}:
        room = module.split(".")[1]
        found[room] |= {
            imported.split(".")[1]
            for imported in graph.find_modules_directly_imported_by(module)
            if imported != "jumar"
        } - {room}
    return dict(found)


def written_imports() -> dict[str, set[str]]:
    rows = ROW.findall(PAGE.read_text("utf-8"))
    return {room: set() if words == "none" else set(words.split(", ")) for room, words in rows}


def test_the_table_of_rooms_is_true() -> None:
    real, written = real_imports(), written_imports()
    assert written.keys() == real.keys()
    wrong = {
        room: f"write: {', '.join(sorted(real[room])) or 'none'}"
        for room in real
        if real[room] != written[room]
    }
    assert not wrong
