"""Where the vendors keep the wheels that no package index has.

An address is listed only where a vendor's page or a public installation guide names it; `{abi}` and
`{machine}` stand for the Python and the processor. Nothing is fetched here."""

import csv
from importlib import resources

from jumar.host.env.needs import Extra
from jumar.host.versions import Version

_APEX_PAGE = (
    "https://ascend-repo.obs.cn-east-2.myhuaweicloud.com/MindX/OpenSource/{folder}/index.html"
)
_APEX_FOLDERS = {"1.8.1": "pytorch1_8_1", "1.11.0": "pytorch1_11_0"}
_APEX_REPOSITORY = "https://gitcode.com/Ascend/apex"


def wheel_address(name: str, version: str, python: str, machine: str) -> str | None:
    """The address of one wheel, or None if no source names it."""
    row = _row(name, version)
    if row is None or machine not in row["machines"].split():
        return None
    if row["pythons"] and python not in row["pythons"].split():
        return None
    return row["address"].format(abi=_abi(python), machine=machine)


def pythons_with_address(name: str, version: str) -> tuple[str, ...]:
    """The versions of Python that have a wheel at a known address."""
    row = _row(name, version)
    return tuple(row["pythons"].split()) if row is not None else ()


def apex_for(torch: Version) -> Extra:
    """Ascend's build of apex: a page with wheels for old versions of torch, else its source."""
    folder = _APEX_FOLDERS.get(str(torch))
    if folder is None:
        how = f"git clone {_APEX_REPOSITORY}; its scripts/build.sh --python=3.X makes the wheel"
        return Extra("apex", how, "Ascend/apex, README")
    how = f"pip install apex --no-index --find-links {_APEX_PAGE.format(folder=folder)}"
    return Extra("apex", how, "PyTorch 1.8 and 1.11 for Ascend, installation of apex")


def _abi(python: str) -> str:
    tag = "cp" + python.replace(".", "")
    # Until 3.7, the binary interface was marked as built with pymalloc.
    return f"{tag}-{tag}m" if python == "3.7" else f"{tag}-{tag}"


def _row(name: str, version: str) -> dict[str, str] | None:
    table = resources.files("jumar.host").joinpath("data", "addresses.csv")
    with table.open(encoding="utf-8") as file:
        rows = csv.DictReader(file)
        return next((r for r in rows if (r["package"], r["version"]) == (name, version)), None)
