"""`jumar env`: Python environments for NPUs."""

import os
import platform
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.cli.output import clip, labelled, local, note, print_json, print_table, say, translated

if TYPE_CHECKING:
    from jumar.host.env.plan import Plan
    from jumar.host.env.tools import Sources
    from jumar.host.env.verify import CheckReport

_MOST_LINE = 100


@click.group(no_args_is_help=True)
def command() -> None:
    """Plan, create and check Python environments for NPUs.

    \b
    Example:
      jumar env plan --torch 2.7
    """


def _wishes(function: Any) -> Any:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option(
            "--machine",
            type=click.Choice(["aarch64", "x86_64"]),
            help="Processor of the machine. [default: this one's]",
        ),
        click.option("--cann", metavar="RELEASE", help="Plan for this CANN release."),
        click.option(
            "--for",
            "project",
            metavar="NAME",
            help="What it is for: verl, vllm-ascend, ms-swift, llamafactory, mindspeed.",
        ),
        click.option("--python", metavar="VERSION", help="Use this Python, such as 3.11."),
        click.option("--mindspore", metavar="VERSION", help="MindSpore, such as 2.9."),
        click.option("--torch", metavar="VERSION", help="torch, such as 2.7."),
    ):
        function = option(function)
    return function


@command.command()
@_wishes
def plan(as_json: bool, **asked: Any) -> int:
    """Show which Python, torch, torch_npu, torchvision and CANN fit together.

    Without options: what fits the installed CANN. Exit code 1 if it clashes or is unknown.

    \b
    Examples:
      jumar env plan --torch 2.7 --cann 8.5.0
      jumar env plan --for verl
      jumar env plan --for vllm-ascend==0.13.0
    """
    made = _make_plan(asked)
    if as_json:
        print_json(made)
    else:
        _print_plan(made)
    return 0 if made.fit == "fits" else 1


def _sources(function: Any) -> Any:
    for option in (
        click.option("--no-index", is_flag=True, help="Use --find-links only."),
        click.option(
            "--find-links", multiple=True, metavar="PLACE", help="Folder or page with wheels."
        ),
        click.option(
            "--extra-index-url", multiple=True, metavar="URL", help="Another package index."
        ),
        click.option(
            "--index-url", metavar="URL", help="Package index to use instead of the configured one."
        ),
        click.option(
            "--allow-unknown", is_flag=True, help="Continue if the tables do not list it."
        ),
    ):
        function = option(function)
    return function


@command.command()
@_wishes
@click.option("--at", type=click.Path(path_type=Path), help="Folder to create. [default: ./env-…]")
@click.option(
    "--with", "tool", type=click.Choice(["uv", "venv", "conda"]), help="Tool that creates it."
)
@_sources
@click.option("--dry-run", is_flag=True, help="Print the commands without running them.")
def create(at: Path | None, tool: str | None, as_json: bool, dry_run: bool, **asked: Any) -> int:
    """Create an environment, install what fits, and verify it by importing.

    Exit code 1 if an installed package does not import.

    \b
    Example:
      jumar env create --torch 2.7 --at ~/envs/npu
    """
    from jumar.host.env.create import make_environment
    from jumar.host.env.tools import Tool, choose_tool, make_steps
    from jumar.host.env.verify import IMPORT_LIMIT_S, check_environment, python_in
    from jumar.host.software import software_here

    made = _make_plan(asked)
    made_for = _python_of(made, asked["allow_unknown"])
    chosen = choose_tool(Tool(tool) if tool else None, made_for, os.environ)
    place = (at or Path(f"env-{made.framework}-{made.version}")).expanduser().absolute()
    steps = make_steps(
        chosen,
        at=place,
        python=made_for,
        requirements=_requirements(made, asked),
        sources=_sources_of(asked),
        environ=os.environ,
    )
    if dry_run:
        shown = [{"title": step.title, "command": list(step.shown)} for step in steps]
        if as_json:
            print_json({"at": str(place), "plan": made, "steps": shown})
        else:
            _print_plan(made)
            for step in steps:
                print(shlex.join(step.shown))
        return 0
    # So that SIGTERM also removes an unfinished environment.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    make_environment(place, steps, os.environ, lambda line: note(clip(line, _MOST_LINE)))
    note("importing the installed packages")
    here = software_here(Path("/"), os.environ)
    report = check_environment(python_in(place), here, os.environ, limit_s=IMPORT_LIMIT_S)
    if as_json:
        print_json({"at": str(place), "plan": made, "check": report})
    else:
        _print_check(report)
        say(local("created {place}; activate it with: source {place}/bin/activate", place=place))
    return 0 if report.is_sound else 1


@command.command()
@_wishes
@click.option(
    "--to", default="wheels", type=click.Path(path_type=Path), help="Folder. [default: ./wheels]"
)
@_sources
@click.option("--dry-run", is_flag=True, help="Print the commands without running them.")
def download(to: Path, as_json: bool, dry_run: bool, **asked: Any) -> int:
    """Download the wheels of an environment for a machine without a network.

    Carry the folder there, then: jumar env create --no-index --find-links FOLDER. Run it again to
    continue an interrupted download.

    \b
    Example:
      jumar env download --torch 2.7 --python 3.10 --machine aarch64 --to wheels
    """
    from jumar.host.env.create import run_step
    from jumar.host.env.tools import download_steps

    made = _make_plan(asked)
    made_for = _python_of(made, asked["allow_unknown"])
    machine = asked["machine"] or platform.machine()
    steps = download_steps(
        to=to.expanduser().absolute(),
        python=made_for,
        machine=machine,
        requirements=_requirements(made, asked),
        sources=_sources_of(asked),
        environ=os.environ,
    )
    if dry_run:
        _print_plan(made)
        for step in steps:
            print(shlex.join(step.shown))
        return 0
    for text in made.notes:
        note(local("note: {text}", text=translated(text)))
    for step in steps:
        note(step.title)
        run_step(step, os.environ, lambda line: note(clip(line, _MOST_LINE)))
    wheels = sorted(path.name for path in to.expanduser().glob("*.whl"))
    if as_json:
        print_json({"to": str(to), "plan": made, "wheels": wheels})
    else:
        say(
            local(
                "{folder} has {count} wheels for Python {python} on {machine}; on that machine:",
                folder=to,
                count=len(wheels),
                python=made_for,
                machine=machine,
            )
        )
        version = f"--{made.framework} {made.version} --python {made_for}"
        cann = f" --cann {made.cann}" if made.cann else ""
        print(f"jumar env create {version}{cann} --no-index --find-links {to}")
    return 0


@command.command()
@click.option("--python", metavar="PATH", help="The interpreter to check. [default: the shell's]")
@click.option("--import", "do_import", is_flag=True, help="Also import the frameworks.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(python: str | None, do_import: bool, as_json: bool) -> int:
    """Check whether the installed versions fit together.

    Exit code 1 if something clashes.

    \b
    Example:
      jumar env check --python ~/envs/npu/bin/python
    """
    from jumar.host.env.verify import IMPORT_LIMIT_S, check_environment
    from jumar.host.interpreter import resolve_python
    from jumar.host.software import software_here

    executable = resolve_python(python, os.environ)
    here = software_here(Path("/"), os.environ)
    limit_s = IMPORT_LIMIT_S if do_import else None
    report = check_environment(executable, here, os.environ, limit_s=limit_s)
    if as_json:
        print_json(report)
    else:
        _print_check(report)
    return 0 if report.is_sound else 1


def _sources_of(asked: Mapping[str, Any]) -> "Sources":
    from jumar.host.env.tools import Sources

    return Sources(
        index_url=asked["index_url"],
        extra_index_urls=asked["extra_index_url"],
        find_links=asked["find_links"],
        no_index=asked["no_index"],
    )


def _requirements(made: "Plan", asked: Mapping[str, Any]) -> list[str]:
    # Wheels that the user brings come before those of the vendor's page.
    brought = asked["find_links"] or asked["no_index"]
    return [one.requirement if brought else one.installable for one in made.packages]


def _make_plan(asked: Mapping[str, Any]) -> "Plan":
    from jumar.host.env.plan import Here, Request, make_plan
    from jumar.host.matrix import shipped
    from jumar.host.software import software_here
    from jumar.host.versions import Version

    def version(name: str) -> Version | None:
        return Version.parse(asked[name]) if asked[name] is not None else None

    found = software_here(Path("/"), os.environ)
    here = Here(
        python=Version.parse(platform.python_version()),
        machine=asked["machine"] or platform.machine(),
        cann=found.version,
        compiler=found.compiler,
    )
    request = Request(
        torch=version("torch"),
        mindspore=version("mindspore"),
        python=version("python"),
        cann=version("cann"),
        project=asked["project"],
    )
    return make_plan(request, here, shipped())


def _python_of(made: "Plan", allow_unknown: bool) -> str:
    from jumar.errors import BadInput

    if made.version is None:
        canns = ", ".join(dict.fromkeys(one.cann for one in made.others if one.cann))
        known = f"it for CANN {canns}" if canns else _known(made.framework)
        raise BadInput(made.text, hint=f"the tables list {known}")
    if made.fit == "clashes":
        raise BadInput(made.text, hint="choose one of these with --python")
    if made.fit == "unknown" and not allow_unknown:
        raise BadInput(made.text, hint="to try it anyway: --allow-unknown")
    if made.python is None:
        raise BadInput(
            f"no table lists the Python versions of {made.framework} {made.version}",
            hint="choose one: --python 3.9 --allow-unknown",
        )
    return made.python


def _known(framework: str) -> str:
    """All versions of a framework that the tables list, oldest first."""
    from jumar.host.matrix import shipped

    matrix = shipped()
    versions = (
        {row.torch for row in matrix.torch}
        if framework == "torch"
        else {row.mindspore for row in matrix.mindspore}
    )
    return f"{framework} " + ", ".join(map(str, sorted(versions)))


def _print_plan(made: "Plan") -> None:
    say(labelled(made.fit, translated(made.text)))
    if made.version is not None:
        python, others = made.python or local("unknown"), ", ".join(made.pythons)
        say(
            local(
                "python {version} (fits: {others})" if others else "python {version}",
                version=python,
                others=others,
            )
        )
        say(local("cann {version}", version=made.cann or local("unknown")))
        print_table(("INSTALL", "SOURCE"), [(one.requirement, one.source) for one in made.packages])
    elif made.others:
        print_table(
            ("LISTED", "CANN", "SOURCE"),
            [(one.release, one.cann or local("unknown"), one.source) for one in made.others],
        )
    for one in made.packages:
        if one.address is not None:
            where = {"requirement": one.requirement, "address": one.address}
            say(local("{requirement} is at {address}", **where))
    for extra in made.extras:
        how = translated(extra.how)
        say(local("{name}, only for code that imports it: {how}", name=extra.name, how=how))
    for text in made.notes:
        say(local("note: {text}", text=translated(text)))


def _print_check(report: "CheckReport") -> None:
    values = {"version": report.python_version, "path": report.python}
    cann = report.cann or local("not found")
    say(local("Python {version} at {path}; CANN {cann}", cann=cann, **values))
    if not report.packages:
        say(local("torch, torch_npu, torchvision and mindspore are not installed"))
    for judged in report.judgements:
        say(labelled(judged.fit, translated(judged.text)))
        if judged.fix is not None:
            say(f"  {labelled('fix', translated(judged.fix))}")
        if judged.source is not None:
            say(f"  {labelled('source', judged.source)}")
    for came in report.imports:
        say(labelled(came.outcome, translated(came.text)))
