"""What a log says of the machine and its packages near a fault, and what goes with that: versions, cards, paths.

A path names the Python and the environment, a line at the start the torch, a warning the card: each may decide between the remedies
that a message alone leaves open."""

import re
from collections.abc import Iterator, Mapping
from functools import cache

from jumar.why.knowledge import rows

_CARDS = (
    ("sm_120", re.compile(r"RTX (?:50[5-9]0|PRO [2-6]\d{3})")),
    ("sm_100", re.compile(r"\bG?B200\b")),
    ("sm_103", re.compile(r"\bG?B300\b")),
    ("sm_90", re.compile(r"\b(?:GH200|H[12]00|H20|H800)\b")),
    ("sm_89", re.compile(r"RTX (?:40[5-9]0|\d000 Ada)|\bL(?:40S?|20|4)\b")),
    ("sm_86", re.compile(r"RTX (?:30[5-9]0|A\d000)|\bA(?:10G?|40|[2-6]000)\b")),
    ("sm_80", re.compile(r"\bA(?:100|800|30)\b")),
    ("sm_75", re.compile(r"RTX 20[6-8]0|GTX 16[5-6]0|\bT4\b")),
    ("sm_70", re.compile(r"\bV100S?\b")),
    ("sm_61", re.compile(r"GTX 10[5-8]0|\bP40?\b")),
    ("sm_60", re.compile(r"\bP100\b")),
    ("sm_52", re.compile(r"GTX 9[5-8]0|\bM[46]0\b")),
    ("sm_37", re.compile(r"\bK80\b")),
)
# `sm_90`, `(7.0) - (12.0)`, `- 7.5 which supports`.
_ARCH = re.compile(r"sm_(\d{2,3})|(?:\(|- )(\d{1,2})\.(\d)")
_MINOR = re.compile(r"\d{1,2}\.\d{1,2}")
_PINNED = re.compile(
    r"^\s*(?P<who>\S{1,60} \d\S{0,30}) depends on (?P<name>[A-Za-z][\w.-]{0,60})(?:\[[^\]\n]{1,60}\])?(?P<range>[<>=!~][^\n;]{0,80})?"
)
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_LIBRARY = re.compile(r"(?P<name>lib[\w+.-]+?)(?:-\d[\d.]*)?\.so\b")
_BUILD = re.compile(r"\btorch==(\d\.\d{1,2}\.\d)\+(cu\d{2,3})\b")
_VERSIONS = re.compile(r"\(from versions: (\d[^)]*)\)")
_ONLY_BUILDS = re.compile(r"Looking in indexes: https?://\S{0,60}/whl/\w{2,9}/?\s*$", re.MULTILINE)
_FIRST_OF_DRIVER = 1000
_TWO = re.compile(r"\d{1,2}\.\d{1,2}")
_SATISFIED = re.compile(
    r"^Requirement already satisfied: (?P<name>[A-Za-z][\w.-]{0,60})[^\n]{0,80}? in (?P<where>[~./]\S{1,200})",
    re.MULTILINE,
)
_UNITS = re.compile(r"[-_.]+")
# NCCL has set up a communicator.
_MADE = re.compile(r"^\S{1,80}?:(\d{1,8}):\d{1,8} \[\d{1,3}\] NCCL INFO .{0,200}Init COMPLETE")
_OF_NCCL = re.compile(r"NCCL (?:INFO|WARN)")
_PROGRESS = re.compile(r"(?i)\bloss\b|\bstep\b|\biter|\bepoch|\d/\d")
_MANY_GROUPS = 2
_PARTS = 3
# How long the step of an image's build has run, which docker writes before each line.
_STEP = re.compile(r"^(?:#\d{1,4} )?\d{1,6}\.\d{1,3} ")
_EXACT = re.compile(r"[A-Za-z][\w.-]*(?:\[[^\]]*\])?==(?P<v>\d[\d.]*)(?:\+\w+)?")
_BOUND = re.compile(r"(?P<sign>[<>=!]=|[<>])\s*(?P<v>\d[\d.]*?)(?P<any>\.\*)?(?:\+\w+)?")
_COUNT = re.compile(r"0x[0-9a-f]{1,9}|0|[1-9]\d{0,9}")


def facts_of(text: str, said: Mapping[str, str]) -> dict[str, str]:
    """What a text says, and what goes with that and with what is known of the message (`said`)."""
    found: dict[str, str] = {}
    for name, pattern in _table():
        fact = pattern.search(text) if name not in found else None
        if fact is not None:
            found[name] = fact["v"].strip(" '\"")
    python = found.get("python", "")
    if python and "." not in python:
        found["python"] = f"3.{python[1:]}"
    return found | dict(_derived(found, text, {**found, **said}))


def _derived(
    found: Mapping[str, str], text: str, known: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    yield from _card(found)
    yield from _driver(found)
    yield from _torch(found)
    yield from _requested(known, text)
    yield from _lacking(known)
    yield from _build_asked(text)
    yield from _other_cuda(found, known)
    yield from _pinned(text)
    yield from _elsewhere(known.get("module", ""), text)
    yield from _toolkit(found, known)
    yield from _groups(text)
    one, other = known.get("one", ""), known.get("other", "")
    if _COUNT.fullmatch(one) and _COUNT.fullmatch(other):
        yield ("older" if int(one, 0) > int(other, 0) else "newer"), "numpy"


def _card(found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Whether the card is newer or older than all for which the installed torch was built."""
    arch = found.get("arch", "")
    if not arch and "card" in found:
        arch = next((arch for arch, pattern in _CARDS if pattern.search(found["card"])), "")
        yield "arch", arch
    if arch and not arch.startswith("sm_"):
        arch = f"sm_{arch.replace('.', '')}"
        yield "arch", arch
    built = [int("".join(parts)) for parts in _ARCH.findall(found.get("built_archs", ""))]
    if not arch:
        return
    number = int(arch.removeprefix("sm_"))
    yield "capability", f"{number // 10}.{number % 10}"
    if not built:
        return
    if number > max(built):
        yield "most", f"sm_{max(built)}"
        yield from belonging("arch", arch).items()
    elif number < min(built):
        yield "fewest", f"sm_{min(built)}"


def _driver(found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    version = found.get("driver_cuda", "")
    if version.isdigit():
        major, minor = divmod(int(version), _FIRST_OF_DRIVER)
        version = f"{major}.{minor // 10}"
        yield "driver_cuda", version
    # As of CUDA 11 a driver runs what was built for any version with the same first number.
    major = version.partition(".")[0]
    yield from (belonging("driver", version) or belonging("driver", major)).items()


def _torch(found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    version, _, build = found.get("torch", "").partition("+")
    goes_with = belonging("torch", _minor(version))
    patch = version.rpartition(".")[2]
    if "vision" in goes_with:
        yield "vision", f"{goes_with['vision']}.{patch if version != '2.0.1' else '2'}"
        yield "audio", f"{goes_with['audio']}.{patch}"
        # Without a build in its version it came from the general index, which has one of each.
        yield from (("torch_base", version), ("torch_build", build or goes_with.get("build", "")))
        index = f" --index-url https://download.pytorch.org/whl/{build}" if build else ""
        yield "torch_index", index
    for part in ("triton", "codec"):
        if part in goes_with:
            yield part, goes_with[part]
    if build.startswith("cu"):
        yield "torch_cuda", f"{build[2:-1]}.{build[-1]}"


def _toolkit(found: Mapping[str, str], known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """nvcc's CUDA and torch's, where they are of two major versions."""
    nvcc = known.get("one") or found.get("nvcc", "")
    torch = known.get("other") or known.get("torch", "")
    if not (_TWO.fullmatch(nvcc) and _TWO.fullmatch(torch)):
        return
    major = nvcc.partition(".")[0]
    if major != torch.partition(".")[0]:
        yield from (("nvcc_used", nvcc), ("nvcc_major", major), ("torch_wanted", torch))
        yield "torch_dashed", torch.replace(".", "-")


def _other_cuda(found: Mapping[str, str], known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """torch's CUDA, where a library of another major version is asked for."""
    build = found.get("torch", "").partition("+cu")[2]
    asked = known.get("version", "").partition(".")[0]
    if build and asked.isdigit() and build[:-1] != asked:
        yield "cuda_other", f"{build[:-1]}.{build[-1]}"


def _requested(known: Mapping[str, str], text: str) -> Iterator[tuple[str, str]]:
    """For which Pythons there is a release that pip was asked for, where this is none of them."""
    named = re.match(r"([A-Za-z][\w-]*)==(\d[\d.]*)", known.get("requirement", ""))
    name, asked = (named[1], named[2]) if named else (known.get("name", ""), known.get("asked", ""))
    pythons = belonging(name.lower(), _minor(asked)).get("pythons", "")
    if pythons and _is_other_python(known.get("python", ""), pythons, asked, text):
        yield from (("pythons", pythons), ("asked_name", name), ("asked", asked.rstrip(".")))
        yield "latest_python", pythons.rpartition(" ")[2]


def _build_asked(text: str) -> Iterator[tuple[str, str]]:
    """A build of torch that is asked for and was never made."""
    asked = _BUILD.search(text)
    builds = "" if asked is None else belonging("torch", _minor(asked[1])).get("builds", "")
    if asked is not None and builds and asked[2] not in builds.split(", "):
        yield from (("build_asked", asked[0]), ("builds_made", builds))
        yield from (("build_torch", asked[1]), ("build_last", builds.rpartition(" ")[2]))


def _is_other_python(python: str, pythons: str, asked: str, text: str) -> bool:
    """Whether Python is the reason: by its own version, or since all releases that there are for it are newer."""
    first, _, last = pythons.partition(" to ")
    if python:
        return not _numbers(first) <= _numbers(python) <= _numbers(last)
    there = [_numbers(one) for found in _VERSIONS.findall(text) for one in found.split(",")]
    # An index of one build begins later than the general one.
    is_general = _ONLY_BUILDS.search(text) is None
    return is_general and bool(there) and _numbers(asked) < min(there)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def _lacking(known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What brings a library, or of which age the system has to be that has it."""
    library = _LIBRARY.search(known.get("file", ""))
    if library is not None:
        for kind in ("library", "wheel"):
            yield from belonging(kind, library["name"]).items()
    yield from belonging("nvcc", known.get("architecture", "").replace("sm_", "compute_")).items()
    word, _, version = known.get("name", "").partition("_")
    yield from belonging(word.lower(), version).items()


def _pinned(text: str) -> Iterator[tuple[str, str]]:
    """Of versions that pip cannot bring together, which one was asked for, and who needs another."""
    begins = text.rfind("The conflict is caused by:")
    if begins < 0:
        return
    lines = [_STEP.sub("", line) for line in text[begins:].split("\n")[1:12]]
    requested = [
        line.partition("requested ")[2].strip() for line in lines if "The user req" in line
    ]
    wanted = [found for line in lines if (found := _PINNED.match(line)) and found["range"]]
    for one in wanted:
        pin = next((pin for pin in requested if _same(pin, one["name"])), "")
        if pin and pin != f"{one['name']}{one['range']}" and not _allows(one["range"], pin):
            yield from (("pin", pin), ("pin_who", one["who"]))
            yield "pin_fit", f"{one['name']}{_range(one['range'])}"
            yield from _partner(one["who"].partition(" ")[0], pin)
            return
    rivals = [(one, other) for one in wanted for other in wanted if _differ(one, other)]
    for one, other in rivals[:1]:
        yield from (("rival", one["who"]), ("rival_other", other["who"]))
        yield from (("rival_wants", f"{one['name']}{_range(one['range'])}"),)
        yield "rival_wants_other", f"{other['name']}{_range(other['range'])}"


def _elsewhere(module: str, text: str) -> Iterator[tuple[str, str]]:
    """Where pip says that it has a module that the Python which runs does not find."""
    for found in _SATISFIED.finditer(text) if module else ():
        if _plain(found["name"]) == _plain(module):
            yield "elsewhere", found["where"]
            return


def _groups(text: str) -> Iterator[tuple[str, str]]:
    """How often NCCL has set up a communicator in a process that had gone on with its steps since the last one."""
    made: dict[str, int] = {}
    idle: set[str] = set()
    has_begun = False
    for line in text.splitlines() if "Init COMPLETE" in text else ():
        found = _MADE.match(line)
        if found is not None:
            made[found[1]] = made.get(found[1], 0) + (has_begun and found[1] not in idle)
            idle.add(found[1])
        elif _PROGRESS.search(line) is not None and _OF_NCCL.search(line) is None:
            has_begun = True
            idle.clear()
    most = max(made.values(), default=0)
    if most >= _MANY_GROUPS:
        yield "groups", str(most)


def _partner(who: str, pin: str) -> Iterator[tuple[str, str]]:
    """The release of a package that is compiled for torch, where torch is pinned."""
    pinned = _EXACT.fullmatch(pin)
    if pinned is None or not pin.startswith("torch=="):
        return
    version = pinned["v"]
    part = {"torchvision": "vision", "torchaudio": "audio"}.get(who, "")
    release = dict(_torch({"torch": version})).get(part, "")
    release = release or belonging(who, version).get(who, "")
    if release:
        yield "pin_partner", f"{who}=={release}"


def _allows(wanted: str, pin: str) -> bool:
    """Whether one version, asked for with ==, is within a range; one that is not read is taken to be outside."""
    exact = _EXACT.fullmatch(pin)
    parts = [_BOUND.fullmatch(part) for part in _range(wanted).split(",")]
    return exact is not None and all(part and _holds(part, exact["v"]) for part in parts)


def _holds(bound: re.Match[str], version: str) -> bool:
    asked, limit = _padded(version), _padded(bound["v"])
    if bound["sign"] in ("==", "!=") and bound["any"]:
        given = len(_numbers(bound["v"]))
        return (asked[:given] == limit[:given]) is (bound["sign"] == "==")
    holds = {
        "==": asked == limit,
        "!=": asked != limit,
        ">=": asked >= limit,
        "<=": asked <= limit,
        ">": asked > limit,
        "<": asked < limit,
    }
    return holds.get(bound["sign"], False)


def _padded(version: str) -> tuple[int, ...]:
    numbers = _numbers(version)
    return numbers + (0,) * (_PARTS - len(numbers))


def _differ(one: re.Match[str], other: re.Match[str]) -> bool:
    is_same = _same(one["name"], other["name"])
    whose = one["who"].partition(" ")[0] != other["who"].partition(" ")[0]
    return is_same and whose and one["range"].strip() != other["range"].strip()


def _range(text: str) -> str:
    return ",".join(part.strip() for part in re.split(r",| and ", text) if part.strip())


def _same(pin: str, name: str) -> bool:
    found = _NAME.match(pin)
    return found is not None and _plain(found[0]) == _plain(name)


def _plain(name: str) -> str:
    return _UNITS.sub("-", name).lower()


def _minor(version: str) -> str:
    found = _MINOR.match(version)
    return "" if found is None else found[0]


def belonging(kind: str, key: str) -> Mapping[str, str]:
    """What goes with something; nothing where that is not known."""
    return _belongings().get((kind, key), {})


@cache
def _belongings() -> Mapping[tuple[str, str], Mapping[str, str]]:
    return {
        (kind, key): dict(_parted(values)) for kind, key, values in rows("jumar.why", "belong.tsv")
    }


def _parted(values: str) -> Iterator[tuple[str, str]]:
    name = ""
    said: list[str] = []
    # A value may be a list.
    for part in values.split(", "):
        key, sign, value = part.partition("=")
        if sign and name:
            yield name, ", ".join(said)
            said = []
        name, said = (key, [value]) if sign else (name, [*said, part])
    yield name, ", ".join(said)


@cache
def _table() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple(
        (name, re.compile(pattern, re.MULTILINE))
        for name, pattern in rows("jumar.why", "facts.tsv")
    )


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Every expression of the table, by its fact."""
    yield from _table()
