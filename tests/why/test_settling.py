"""Between the remedies that a message leaves open what stands elsewhere in the log decides: versions, cards, paths, pip's own lines."""

import re
from pathlib import Path

import pytest
from tests.why.logs import verdict_of

from jumar.why.facts import belonging, facts_of
from jumar.why.knowledge import LANGUAGES, causes, rows
from jumar.why.particulars import words
from jumar.why.reasons import words as words_of_reasons
from jumar.why.settling import needed, settled

_NAME = re.compile(r"\{\w+\}")
_NOT = "!"


def _rows() -> list[list[str]]:
    lines = Path(__file__).with_name("settled.tsv").read_text("utf-8").splitlines()
    return [line.split("\t", 2) for line in lines if not line.startswith(("#", "form\t"))]


@pytest.mark.parametrize(("form", "said", "log"), _rows())
def test_the_log_decides_and_what_it_says_is_told(form: str, said: str, log: str) -> None:
    verdict = verdict_of(log.replace("\\n", "\n").replace("\\t", "\t") + "\n")
    wanted = map(re.escape, _NAME.split(words("en")[form.removeprefix(_NOT)]["what"]))
    is_told = re.match(".+".join(wanted), verdict.what["en"], re.DOTALL) is not None
    assert is_told is not form.startswith(_NOT), verdict.what
    told = f"{verdict.what['en']} {verdict.remedy['en']}"
    assert said == "-" or all(part in told for part in said.split(" / ")), told
    assert not _NAME.search(told + verdict.what["zh"] + verdict.remedy["zh"])


def test_the_table_and_its_words_are_whole() -> None:
    tested = {form.removeprefix(_NOT) for form, _, _ in _rows()}
    forms = {one.name for found in settled().values() for one in found}
    assert forms <= tested
    known = {*causes(), *words("en"), *(name.replace(" ", ":") for name in words_of_reasons("en"))}
    assert {*settled()} <= known
    for form in forms:
        for language in LANGUAGES:
            told = words(language)[form]
            names = set(_NAME.findall(told["what"] + told["remedy"]))
            assert names == {f"{{{name}}}" for name in needed(form)}, form


def test_what_belongs_together_is_read_as_it_stands() -> None:
    assert belonging("torch", "2.4") == {
        "triton": "3.0",
        "build": "cu121",
        "builds": "cu118, cu121, cu124",
        "vision": "0.19",
        "audio": "2.4",
        "pythons": "3.8 to 3.12",
    }
    assert belonging("glibc", "2.34")["system"] == "Ubuntu 22.04, Debian 12, RHEL 9"
    assert not belonging("torch", "0.1")
    assert all(
        len(row) == len(("kind", "key", "values")) for row in rows("jumar.why", "belong.tsv")
    )


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        # What was removed is not there, what was put in its place is.
        (
            "Successfully uninstalled torch-2.4.0+cu121\nSuccessfully installed numpy-2.1.0 torch-2.6.0\n",
            {"torch": "2.6.0", "vision": "0.21.0", "torch_index": ""},
        ),
        (
            "      torch.__version__  = 2.1.2+cu118\n",
            {"torch": "2.1.2+cu118", "torch_cuda": "11.8"},
        ),
        # A path is as good as a line that says so.
        ("/opt/v/lib/python3.11/site-packages/x/y.py", {"python": "3.11"}),
        ("x-1.0-cp312-cp312-linux_x86_64.whl", {"python": "3.12"}),
        # 2.0.1 is the one whose torchvision has another last number.
        ("torch==2.0.1", {"vision": "0.15.2"}),
        # No version of torch is told by what a package wants.
        ("foo requires torch>=1.10.0\n", {}),
    ],
)
def test_facts_of_a_log(text: str, facts: dict[str, str]) -> None:
    found = facts_of(text, {})
    assert {name: found.get(name) for name in facts} == facts
    assert facts or "torch" not in found
