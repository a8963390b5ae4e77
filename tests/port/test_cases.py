"""The labelled corpus: what each rule changes and, first of all, what it leaves alone."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jumar.port import Mode, Options, port_text

CASES = Path(__file__).parent / "cases"
HEAD = "import torch\n"
PRELUDE = re.compile(r"\n\n(?:(?:ACCELERATOR|DEVICE_MODULE) = [^\n]*\n)+")
PLUGIN = re.compile(r"^import torch_npu\n", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    before: str
    portable: str
    npu: str
    portable_findings: frozenset[str]
    npu_findings: frozenset[str]


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.split()) - {"-"}


def read(line: str) -> Case:
    body, _, labels = line.partition(" !! ")
    parts = [part.replace("¶", "\n") for part in body.split(" => ")]
    assert len(parts) in (1, 3), line
    before, portable, npu = parts if len(parts) == 3 else (parts[0],) * 3
    left, bar, right = labels.partition(" | ")
    return Case(before, portable, npu, _codes(left), _codes(right if bar else left))


def lines() -> Iterator[tuple[str, str]]:
    for path in sorted(CASES.glob("*.cases")):
        section = ""
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            if line.startswith("## "):
                section = line[3:]
            elif line and not line.startswith("# ") and line != "#":
                yield line, f"{path.stem}:{number}:{section[:20]}"


CORPUS = [pytest.param(line, id=name) for line, name in lines()]


def ported(text: str, mode: Mode) -> tuple[str, frozenset[str]]:
    result = port_text(HEAD + text + "\n", Options(mode=mode))
    body = PLUGIN.sub("", PRELUDE.sub("\n", result.text))
    return body.removeprefix(HEAD).strip("\n"), frozenset(f.code for f in result.findings)


@pytest.mark.parametrize("line", CORPUS)
def test_case(line: str) -> None:
    case = read(line)
    assert ported(case.before, Mode.PORTABLE) == (case.portable, case.portable_findings)
    assert ported(case.before, Mode.NPU_ONLY) == (case.npu, case.npu_findings)


@pytest.mark.parametrize("line", CORPUS)
def test_porting_twice_is_porting_once(line: str) -> None:
    for mode in Mode:
        once = port_text(HEAD + read(line).before + "\n", Options(mode=mode)).text
        assert port_text(once, Options(mode=mode)).text == once


@pytest.mark.parametrize("mode", Mode)
def test_a_port_that_is_ported_again_still_reports_the_cards_generation(mode: Mode) -> None:
    asks = [case for case in (read(line) for line, _ in lines()) if "JP701" in case.npu_findings]
    assert len(asks) > 5
    for case in asks:
        once = port_text(HEAD + case.before + "\n", Options(mode=mode))
        again = port_text(once.text, Options(mode=mode))
        codes = [[f.code for f in result.findings] for result in (once, again)]
        assert codes[0].count("JP701") == codes[1].count("JP701"), once.text


def test_the_corpus_is_large_and_half_of_it_is_left_alone() -> None:
    every = [read(line) for line, _ in lines()]
    untouched = [c for c in every if c.before == c.portable == c.npu]
    assert len(every) >= 400
    assert len(untouched) >= 180
