"""The trial report: what the run did that matters on a real card, as text and as JSON at exit."""

import atexit
import json
import os
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

from torch_npu._sim.memory import LEDGERS
from torch_npu._sim.place import SETTINGS
from torch_npu._sim.record import RECORD
from torch_npu._sim.refuse import size
from torch_npu._sim.report_words import padded, said
from torch_npu._sim.watch import WATCH

_SHOWN = 12
_TITLES = {
    "refused": "a real NPU would refuse",
    "copy-to-device": "copies from host to device",
    "copy-to-host": "copies from device to host",
    "copy-between-devices": "copies between devices",
    "wait": "places where the host waits for the device",
}


def as_dict() -> Dict[str, Any]:
    """The report as plain data."""
    WATCH.count()
    return {
        "format": 1,
        "mode": SETTINGS.mode,
        "backend": SETTINGS.backend,
        "chip": SETTINGS.chip.name,
        "release": SETTINGS.operators.release,
        "devices": SETTINGS.devices,
        "rank": int(os.environ.get("RANK", "0")),
        "steps": RECORD.steps,
        "calls": RECORD.calls,
        "at_least": RECORD.misses_some,
        "operators": dict(RECORD.operators.most_common()),
        "host_operators": [
            {"name": name, "count": count, "file": place.file, "line": place.line}
            for name, count in RECORD.host_operators.most_common()
            for place in [RECORD.host_places[name]]
        ],
        "events": [
            {
                "kind": event.kind,
                "what": event.what,
                "file": event.place.file,
                "line": event.place.line,
                "count": count,
            }
            for event, count in RECORD.events.most_common()
        ],
        "bytes_moved": dict(RECORD.bytes_moved),
        "dtypes": dict(RECORD.dtypes.most_common()),
        "memory": [
            {"device": ledger.index, "peak": ledger.highest, "limit": ledger.limit}
            for ledger in LEDGERS
            if ledger.highest
        ],
    }


def _where(entry: Dict[str, Any]) -> str:
    path = entry["file"]
    inside = os.path.relpath(path) if os.path.isabs(path) else path
    return f"{path if inside.startswith('..') else inside}:{entry['line']}"


def _section(title: str, rows: List[Tuple[str, str]]) -> List[str]:
    if not rows:
        return []
    lines = [said("{title}:", title=title)]
    lines += [f"  {padded(left, 14)} {right}" for left, right in rows[:_SHOWN]]
    if len(rows) > _SHOWN:
        lines.append("  " + said("… and {count} more", count=len(rows) - _SHOWN))
    return lines


def _times(count: int) -> str:
    return said("once") if count == 1 else said("{count} times", count=count)


def as_text(report: Dict[str, Any]) -> str:
    """The report for people."""

    def bound(amount: str) -> str:
        return said("at least {amount}", amount=amount) if report["at_least"] else amount

    lines = [
        said(
            "== trial on simulated NPUs: {chip}, torch_npu {release}, mode {mode}, "
            "{steps} optimizer steps",
            chip=report["chip"],
            release=report["release"],
            mode=report["mode"],
            steps=report["steps"],
        )
    ]
    lines += _section(
        said("no NPU kernel, falls back to the CPU"),
        [
            (bound(_times(row["count"])), f"aten::{row['name']}  {_where(row)}")
            for row in report["host_operators"]
        ],
    )
    for kind, title in _TITLES.items():
        rows = [row for row in report["events"] if row["kind"] == kind]
        moved = report["bytes_moved"].get(kind)
        lines += _section(
            said("{title} ({size})", title=said(title), size=size(moved)) if moved else said(title),
            [(_times(row["count"]), f"{row['what']}  {_where(row)}") for row in rows],
        )
    lines += _section(
        said("peak memory"),
        [
            (
                f"npu:{row['device']}",
                said("{peak} of {limit}", peak=bound(size(row["peak"])), limit=size(row["limit"])),
            )
            for row in report["memory"]
        ],
    )
    operators = report["operators"]
    if operators:
        most = ", ".join(list(operators)[:8])
        kinds = "operators: {count} kinds; most used: {most}"
        lines.append(said(kinds, count=len(operators), most=most))
    if report["dtypes"]:
        names = ", ".join(name.replace("torch.", "") for name in report["dtypes"])
        lines.append(said("dtypes: {names}", names=names))
    if not (report["host_operators"] or any(row["kind"] == "refused" for row in report["events"])):
        lines.append(said("found nothing that a real NPU would refuse or run on the CPU"))
    return "\n".join(lines)


def _path_for(path: Path, rank: int) -> Path:
    return path if rank == 0 else path.with_name(f"{path.stem}.rank{rank}{path.suffix}")


def _write(path: Path, report: Dict[str, Any]) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")
    os.replace(aside, path)


def _at_exit(pid: int) -> None:
    if os.getpid() != pid or not RECORD.used:
        return
    report = as_dict()
    if report["rank"] == 0:
        sys.stderr.write(as_text(report) + "\n")
    if SETTINGS.report is not None:
        try:
            _write(_path_for(SETTINGS.report, report["rank"]), report)
        except OSError as error:
            sys.stderr.write(said("the trial report was not written: {error}", error=error) + "\n")


def install() -> None:
    """Report when this process ends; a forked child stays silent."""
    if SETTINGS.checks:
        atexit.register(_at_exit, os.getpid())
