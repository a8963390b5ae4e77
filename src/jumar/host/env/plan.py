"""What to install so that all of it fits, from the shipped tables.

Planning inspects no machine and installs nothing. What the tables do not list is planned as
unknown, together with what they do list."""

from dataclasses import dataclass, replace

from jumar.errors import BadInput
from jumar.host.env.addresses import apex_for, pythons_with_address, wheel_address
from jumar.host.env.needs import Extra, Package, needed_by
from jumar.host.env.projects import versions_of
from jumar.host.fit import Fit, best_torch_row, cann_words
from jumar.host.matrix import Matrix, MindSporeRow, TorchRow, minor_of
from jumar.host.versions import Version, parse_or_none

_ONE_MINDSPORE = Version.parse("2.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user wants; None leaves it open."""

    torch: Version | None = None
    mindspore: Version | None = None
    python: Version | None = None
    cann: Version | None = None
    project: str | None = None
    """What the environment is for: `verl`, or `vllm-ascend==0.13.0`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What this machine has; None if it has none or does not say."""

    python: Version
    machine: str
    cann: Version | None = None
    compiler: Version | None = None


@dataclass(frozen=True, slots=True)
class Pairing:
    """One row of the tables: a framework release and its CANN."""

    release: str
    cann: str | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would be installed, and how certain that is."""

    framework: str
    fit: Fit
    text: str
    version: str | None = None
    cann: str | None = None
    """The CANN release of the plan, as the table writes it."""
    cann_here: str | None = None
    python: str | None = None
    pythons: tuple[str, ...] = ()
    packages: tuple[Package, ...] = ()
    extras: tuple[Extra, ...] = ()
    notes: tuple[str, ...] = ()
    others: tuple[Pairing, ...] = ()
    """Other rows of the tables for what was asked."""


def make_plan(request: Request, here: Here, matrix: Matrix) -> Plan:
    """The best plan for the request on this machine."""
    if request.torch is not None and request.mindspore is not None:
        raise BadInput("give --torch or --mindspore, not both: an environment has one framework")
    if request.project is not None:
        if request.torch is not None or request.mindspore is not None:
            raise BadInput("--for already says which framework; leave out --torch and --mindspore")
        plan = _plan_project(request, request.project, here, matrix)
    elif request.mindspore is not None:
        plan = _plan_mindspore(request, request.mindspore, here, matrix)
    elif request.torch is None and request.cann is None and here.cann is None:
        raise BadInput(
            "no CANN was found on this machine, so there is nothing to match",
            hint="say what you want: --torch 2.7, --mindspore 2.9 or --cann 8.5.0",
        )
    else:
        plan = _plan_torch(request, here, matrix)
    return _with_addresses(_with_this_machine(plan, request, here), here.machine)


def _plan_torch(request: Request, here: Here, matrix: Matrix) -> Plan:
    cann = request.cann or here.cann
    rows = [
        row
        for row in matrix.torch
        if (request.torch is None or row.torch.starts_with(request.torch))
        and (request.torch is not None or cann is None or row.takes_cann(cann))
    ]
    asked = "torch" if request.torch is None else f"torch {request.torch}"
    others = tuple(
        Pairing(f"torch {row.torch}, torch_npu {row.torch_npu}", row.cann, row.source)
        for row in rows
    )
    row = best_torch_row(matrix, torch=request.torch, cann=cann)
    if row is not None:
        listed = row.listed_for(cann)
        on = listed[0] if listed else row.cann
        text = f"torch {row.torch} with torch_npu {row.torch_npu} on CANN {on}"
        return replace(_torch_row(row, matrix, cann, Fit.FITS, text, others), cann=on)
    paired = any(row.cann for row in rows)
    if rows and not paired:
        newest = max(rows, key=lambda row: (row.torch, row.torch_npu))
        text = f"torch_npu {newest.torch_npu} is published, but no table lists its CANN"
        return _torch_row(newest, matrix, cann, Fit.UNKNOWN, text, others)
    named = cann is not None and any(row.takes_cann(cann) for row in matrix.torch)
    return _no_row("torch", asked, cann, paired and named, others)


def _plan_project(request: Request, asked: str, here: Here, matrix: Matrix) -> Plan:
    cann = request.cann or here.cann
    listed = versions_of(asked)
    others = tuple(
        Pairing(f"{one.name} {one.version}", one.cann_words, one.source) for one in listed
    )
    found = ((one, row) for one in listed if (row := one.row_for(cann, matrix)) is not None)
    wish, row = next(found, (None, None))
    if wish is None or row is None:
        return Plan(
            framework="torch",
            fit=Fit.CLASHES,
            text=f"no version of {asked} that jumar knows runs on CANN {cann}",
            notes=("to plan for a CANN that is listed: --cann RELEASE",),
            others=others,
        )
    on = row.listed_for(cann)
    text = (
        f"{wish.name} {wish.version} {'runs with' if wish.at_least else 'asks for'} torch {row.torch}"
        f" with torch_npu {row.torch_npu} on CANN {on[0] if on else wish.cann}"
    )
    plan = _torch_row(row, matrix, cann, Fit.FITS, text, others)
    return replace(
        plan,
        cann=on[0] if on else str(wish.cann),
        pythons=tuple(str(one) for one in wish.pythons if row.takes_python(one) is not False),
        packages=(*plan.packages, *wish.packages),
    )


def _plan_mindspore(request: Request, asked: Version, here: Here, matrix: Matrix) -> Plan:
    cann = request.cann or here.cann
    compiler = here.compiler if request.cann is None else None
    rows = [row for row in matrix.mindspore if row.mindspore.starts_with(asked)]
    others = tuple(Pairing(f"mindspore {row.mindspore}", row.cann, row.source) for row in rows)
    fitting = [row for row in rows if cann is None or row.takes_cann(cann, compiler)]
    if fitting:
        row = max(fitting, key=lambda row: row.mindspore)
        return _mindspore_row(row, cann, others)
    named = any(row.takes_cann(cann, compiler) for row in matrix.mindspore)
    return _no_row("mindspore", f"mindspore {asked}", cann, bool(rows) and named, others)


def _no_row(
    framework: str, asked: str, cann: Version | None, clashes: bool, others: tuple[Pairing, ...]
) -> Plan:
    if clashes:
        text = f"no table pairs {asked} with CANN {cann}"
    elif others:
        text = f"CANN {cann} is not listed in jumar's tables"
    elif cann is None:
        text = f"{asked} is not listed in jumar's tables"
    else:
        text = f"jumar's tables do not list {asked} for CANN {cann}"
    return Plan(
        framework=framework,
        fit=Fit.CLASHES if clashes else Fit.UNKNOWN,
        text=text,
        notes=("to plan for a CANN that the tables list: --cann RELEASE",) if others else (),
        others=others,
    )


def _torch_row(
    row: TorchRow,
    matrix: Matrix,
    cann: Version | None,
    fit: Fit,
    text: str,
    others: tuple[Pairing, ...],
) -> Plan:
    listed = row.listed_for(cann)
    source = listed[1] if listed else row.source
    packages = [
        Package("torch", f"torch=={row.torch}", source),
        Package("torch_npu", f"torch_npu=={row.torch_npu}", source, on_index=bool(row.wheels)),
    ]
    notes: list[str] = []
    if row.torch in matrix.torchvision:
        version, source = matrix.torchvision[row.torch]
        packages.append(Package("torchvision", f"torchvision=={version}", source))
    else:
        notes.append(f"no table lists a torchvision for torch {row.torch}")
    return Plan(
        framework="torch",
        fit=fit,
        text=text,
        version=str(row.torch),
        cann=row.cann,
        pythons=tuple(str(python) for python in row.pythons),
        packages=(*packages, *needed_by("torch", row.torch, _planned_cann(row, cann))),
        extras=(apex_for(row.torch),),
        notes=tuple(notes),
        others=others,
    )


def _planned_cann(row: TorchRow, cann: Version | None) -> Version | None:
    return cann or parse_or_none((row.cann or "").removesuffix(".X"))


def _mindspore_row(row: MindSporeRow, cann: Version | None, others: tuple[Pairing, ...]) -> Plan:
    made_for = row.cann or (str(cann) if cann is not None else None)
    # Until 2.0 each kind of card had a distribution of its own.
    distribution = "mindspore_ascend" if row.mindspore < _ONE_MINDSPORE else "mindspore"
    return Plan(
        framework="mindspore",
        fit=Fit.FITS if made_for else Fit.UNKNOWN,
        text=f"mindspore {row.mindspore} on {cann_words(row)}",
        version=str(row.mindspore),
        cann=made_for,
        pythons=tuple(str(python) for python in row.wheels)
        or pythons_with_address(distribution, str(row.mindspore)),
        packages=(
            Package(
                distribution,
                f"{distribution}=={row.mindspore}",
                row.source,
                on_index=bool(row.wheels),
            ),
            *needed_by("mindspore", row.mindspore),
        ),
        others=others,
    )


def _with_addresses(plan: Plan, machine: str) -> Plan:
    """Where the vendor keeps the wheels that no package index is known to have."""
    packages: list[Package] = []
    notes = list(plan.notes)
    for package in plan.packages:
        if not package.on_index:
            name, _, version = package.requirement.partition("==")
            address = wheel_address(name, version, plan.python or "", machine)
            if address is None:
                notes.append(_not_on_the_index(package.requirement, plan.python, machine))
            packages.append(replace(package, address=address))
        else:
            packages.append(package)
    return replace(plan, packages=tuple(packages), notes=tuple(notes))


def _not_on_the_index(what: str, python: str | None, machine: str) -> str:
    return (
        f"no source names a wheel of {what} for Python {python or 'unknown'} on {machine}: look on"
        " the vendor's release page, download it and pass its folder with --find-links"
    )


def _with_this_machine(plan: Plan, request: Request, here: Here) -> Plan:
    """Choose the Python and note how the plan and this machine differ."""
    plan = replace(plan, cann_here=str(here.cann) if here.cann else None)
    if plan.version is None:
        return plan
    notes = [*plan.notes, *_notes(plan, request, here)]
    wanted = request.python or here.python
    minor = str(minor_of(wanted))
    if not plan.pythons:
        notes.append(f"no table lists the Python versions of {plan.framework} {plan.version}")
        chosen = minor if request.python else None
        fit = plan.fit if request.python is None else Fit.UNKNOWN
        return replace(plan, fit=fit, python=chosen, notes=tuple(notes))
    if minor in plan.pythons:
        return replace(plan, python=minor, notes=tuple(notes))
    if request.python is None:
        return replace(plan, python=plan.pythons[-1], notes=tuple(notes))
    text = f"{plan.framework} {plan.version} requires Python {', '.join(plan.pythons)}, not {minor}"
    return replace(plan, fit=Fit.CLASHES, text=text, notes=tuple(notes))


def _notes(plan: Plan, request: Request, here: Here) -> list[str]:
    notes: list[str] = []
    if plan.framework == "torch" and here.machine == "x86_64":
        notes.append(
            "on x86_64 the default torch wheel pulls in gigabytes for NVIDIA cards: pass the index"
            " of PyTorch's CPU builds with --extra-index-url"
        )
    if here.cann is None:
        wants = f"; the plan needs CANN {plan.cann}" if plan.cann else ""
        notes.append(f"no CANN was found on this machine{wants}")
    elif request.cann is not None and request.cann != here.cann:
        notes.append(f"planned for CANN {request.cann}; this machine has {here.cann}")
    cann = request.cann or here.cann
    if cann is not None and cann.release != cann:
        notes.append(f"CANN {cann} is a pre-release of {cann.release}, which the tables list")
    return notes
