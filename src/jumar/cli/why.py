"""`jumar why`: the first fault in the logs of a job, or in any logs."""

import os
import sys
from collections.abc import Sequence

import click

from jumar.cli import completing
from jumar.cli.arrays import one_of
from jumar.cli.connect import connected
from jumar.cli.output import labelled, language, local, print_json, readable_line, say
from jumar.errors import BadInput
from jumar.spec.verdicts import LOOK_NEXT, Evidence, Verdict
from jumar.words.reasons import phrase


@click.command()
@click.argument("what", metavar="JOB|LOG", nargs=-1, required=True, shell_complete=completing.jobs)
@click.option(
    "--code",
    metavar="FOLDER",
    help="The code that the logs are of.  [default: the job's; else the folder of the logs]",
)
@click.option("--json", "as_json", is_flag=True, help="Print all that was found, as JSON.")
def command(what: Sequence[str], code: str | None, as_json: bool) -> None:
    """Explain from the logs why a job failed.

    JOB is an id, the first letters of one, a name, or USER/NAME. LOG is a file, a folder with logs, or -
    for standard input; several are read together, so give the logs of all ranks, CANN's plog and the
    kernel's lines. The answer is the first fault over all of them, whose it is (the script, a card, the
    network, the machine, memory), the lines that show it, and what to do; or unknown. The script is read
    too, where it is at hand: its lines often show what a message leaves open.

    \b
    Examples:
      jumar why digits
      jumar why logs/ ~/ascend/log --json
      jumar why logs/ --code ~/project
      dmesg | jumar why - train.log
    """
    if _are_logs(what):
        verdict = _of_logs(what, code)
    elif code is not None:
        raise BadInput("--code is for logs", hint="a job's code is known to the server")
    else:
        verdict = _of_job(what[0])
    if as_json:
        print_json(verdict)
    else:
        _print(verdict)


def _are_logs(what: Sequence[str]) -> bool:
    """One word that is no file is a job; a path is never one."""
    if len(what) > 1 or what[0] == "-" or os.path.exists(what[0]):
        return True
    return what[0].startswith((".", "/", "~")) or what[0].count("/") > 1 or what[0].endswith(".log")


def _of_logs(what: Sequence[str], code: str | None) -> Verdict:
    from jumar.why.gather import code_beside, from_paths, from_stream
    from jumar.why.judging import judge

    if what.count("-") > 1:
        raise BadInput("standard input can be read only once")
    paths = [path for path in what if path != "-"]
    sources = from_paths(paths)
    if "-" in what:
        sources.append(from_stream(sys.stdin.buffer))
    return judge(sources, code=code_beside(paths, code))


def _of_job(job: str) -> Verdict:
    with connected() as client:
        return client.why(one_of(client, job).id)


def _print(verdict: Verdict) -> None:
    spoken = language()
    from jumar.why.knowledge import texts

    whose = texts(spoken)["whose"][verdict.whose]
    what = readable_line(verdict.what[spoken])
    say(local("{label}: {text}", label=whose, text=what))
    where: list[str] = []
    if verdict.rank is not None:
        where.append(phrase(spoken, "who", "rank", rank=verdict.rank).strip())
    if verdict.place is not None:
        where.append(readable_line(verdict.place))
    if where:
        say(f"  {phrase(spoken, 'told', 'comma').join(where)}")
    for one in verdict.evidence:
        say(f"  {_line(one)}")
    label = "look next" if verdict.kind in LOOK_NEXT else "remedy"
    say(labelled(label, verdict.remedy[spoken]))
    if verdict.followed:
        say(local("{label}:", label=local("also in the logs")))
        for one in verdict.followed:
            say(f"  {_line(one)}")


def _line(one: Evidence) -> str:
    return readable_line(f"{one.file}:{one.line}: {one.text}")
