"""`jumar` itself: the table of commands, each imported when it is called.

A new command is one line in `COMMANDS` and one module with a click command named `command`. Its
help line is repeated here, so that `jumar --help` needs no imports (a test compares the two).

click and not typer: typer 0.29 imports pydantic for any option that is not a flag, and then needs
350 ms to start; click needs 80."""

import re
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from typing import cast

import click

from jumar import __version__
from jumar.cli.filling import filled
from jumar.cli.output import columns_of, complain, language, local, translated
from jumar.errors import JumarError


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: where it is and what it does."""

    module: str
    help: str
    section: str


# Where click itself has no guess.
_UNKNOWN = re.compile(r"No such command '([^']*)'\.")
JOBS, SERVER, DATA, MACHINE, TOOLS = "Jobs", "Server", "Data", "This machine", "Tools"

COMMANDS: dict[str, Entry] = {
    "run": Entry("jumar.cli.run", "Submit a job.", JOBS),
    "jobs": Entry("jumar.cli.jobs", "List jobs.", JOBS),
    "jobs upload": Entry(
        "jumar.cli.jobs_upload", "Upload results that a job could not send.", JOBS
    ),
    "jobs rm": Entry("jumar.cli.jobs_rm", "Remove ended jobs and their folders.", JOBS),
    "show": Entry("jumar.cli.show", "Show everything about one job.", JOBS),
    "logs": Entry("jumar.cli.logs", "Print a job's log, or follow it.", JOBS),
    "why": Entry("jumar.cli.why", "Explain from the logs why a job failed.", JOBS),
    "eval": Entry(
        "jumar.cli.evaluating",
        "Show and compare the results of trainings, or evaluate one with a script.",
        JOBS,
    ),
    "files": Entry("jumar.cli.files", "List a job's files.", JOBS),
    "get": Entry("jumar.cli.get", "Copy a job's files to this machine.", JOBS),
    "exec": Entry("jumar.cli.exec", "Run a command in a running job.", JOBS),
    "shell": Entry(
        "jumar.cli.shell", "Open a shell in a running job, or on cards of its own.", JOBS
    ),
    "stop": Entry("jumar.cli.stop", "Stop jobs.", JOBS),
    "rerun": Entry("jumar.cli.rerun", "Run a job again, as a new job.", JOBS),
    "top": Entry("jumar.cli.top", "Show the cards and who holds them.", JOBS),
    "images": Entry("jumar.cli.images", "List the images that jobs can run in.", JOBS),
    "share": Entry("jumar.cli.share", "Show who used what and who is next.", JOBS),
    "usage": Entry("jumar.cli.usage", "Show who used how much.", JOBS),
    "data": Entry(
        "jumar.cli.data",
        "Copy, list and sample data: folders, obs:// and s3://; hub:// is read.",
        DATA,
    ),
    "store": Entry(
        "jumar.cli.store",
        "Lay out buckets, publish them, print keys, migrate the built-in store.",
        DATA,
    ),
    "repo": Entry(
        "jumar.cli.repo",
        "Create, fill, clone and delete repositories of code, models and data sets.",
        DATA,
    ),
    "up": Entry("jumar.cli.up", "Start the server.", SERVER),
    "down": Entry("jumar.cli.down", "Stop the server; running jobs continue.", SERVER),
    "drain": Entry("jumar.cli.drain", "Stop starting jobs, before maintenance.", SERVER),
    "login": Entry("jumar.cli.login", "Use another server.", SERVER),
    "relay": Entry("jumar.cli.relay", "Carry a connection over stdin and stdout.", SERVER),
    "users": Entry("jumar.cli.users", "List and approve users.", SERVER),
    "open": Entry(
        "jumar.cli.opening",
        "Print a link that opens the web pages, or an endpoint of a running job, as you.",
        SERVER,
    ),
    "site": Entry("jumar.cli.site", "Install and run jumar for everybody on this machine.", SERVER),
    "slurm": Entry("jumar.cli.slurm", "Make a Slurm cluster out of bare hosts.", SERVER),
    "backup": Entry("jumar.cli.backup", "Save the queue and the users to a file.", SERVER),
    "restore": Entry("jumar.cli.restore", "Restore a backup of the queue and the users.", SERVER),
    "repair": Entry("jumar.cli.repair", "Rebuild the list of jobs from their folders.", SERVER),
    "groups": Entry("jumar.cli.groups", "Create groups and set their shares.", SERVER),
    "notify": Entry("jumar.cli.notify", "Get a chat message when your jobs end.", SERVER),
    "tokens": Entry("jumar.cli.tokens", "List, create and revoke tokens.", SERVER),
    "ssh-key": Entry("jumar.cli.ssh_keys", "Add, list and remove public keys for SSH.", SERVER),
    "passwd": Entry("jumar.cli.passwd", "Change your password.", SERVER),
    "login obs": Entry("jumar.cli.login_obs", "Save a key for OBS or another S3 server.", DATA),
    "login modelarts": Entry(
        "jumar.cli.login_modelarts", "Save an account at ModelArts: AK, SK and project id.", DATA
    ),
    "modelarts": Entry(
        "jumar.cli.modelarts",
        "Look at training jobs on ModelArts; write an entry script for it.",
        JOBS,
    ),
    "doctor": Entry(
        "jumar.cli.doctor", "Find what keeps jobs from running on this machine.", MACHINE
    ),
    "selftest": Entry(
        "jumar.cli.selftest", "Test the platform on this machine by injecting faults.", MACHINE
    ),
    "devices": Entry("jumar.cli.devices", "List the cards of this machine.", MACHINE),
    "launch": Entry(
        "jumar.cli.launch",
        "Start one process per device, watch them, and end them together.",
        MACHINE,
    ),
    "ranktable": Entry(
        "jumar.cli.ranktable", "Make, merge, check and show rank tables (hccl.json).", MACHINE
    ),
    "env": Entry("jumar.cli.env", "Plan, create and check Python environments for NPUs.", MACHINE),
    "port": Entry(
        "jumar.cli.port", "Port CUDA training code to Ascend NPUs, with a report.", TOOLS
    ),
    "try": Entry("jumar.cli.trying", "Try a script on simulated NPUs.", TOOLS),
    "demo": Entry("jumar.cli.demo", "Port a CUDA script and train it on simulated NPUs.", TOOLS),
    "simulate": Entry("jumar.cli.simulate", "Try the scheduler on a workload.", TOOLS),
    "ide": Entry("jumar.cli.ide", "Submit from PyCharm or VS Code.", TOOLS),
    "spec": Entry("jumar.cli.spec", "Check job files.", TOOLS),
    "version": Entry("jumar.cli.version", "Print versions.", TOOLS),
}


class _ReaderLeftError(Exception):
    """Nobody reads the output any more; of a BrokenPipeError click itself makes a failure (1)."""


class LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderLeftError from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # Some commands have two words.
        name = " ".join(args[:2])
        if name in COMMANDS:
            return name, self.get_command(ctx, name), args[2:]
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        return _in_their_words(cast("click.Command", import_module(entry.module).command))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            with formatter.section(translated(section)):
                formatter.write_dl(
                    [
                        (name, translated(entry.help))
                        for name, entry in COMMANDS.items()
                        if entry.section == section
                    ]
                )


class _TheirFormatter(click.HelpFormatter):
    """Help whose frame, which is click's own, is in the language of the terminal too."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, prefix or local("Usage: "))

    def write_heading(self, heading: str) -> None:
        words = local("{label}:", label=translated(heading))
        self.write(f"{'':>{self.current_indent}}{words}\n")

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        rows = list(rows)
        first = min(max((columns_of(name) for name, _ in rows), default=0), col_max) + col_spacing
        room = max(self.width - self.current_indent - first - 2, 10)
        told = [(name, _default_in_their_words(translated(text))) for name, text in rows]
        super().write_dl([(name, _filled(text, room)) for name, text in told], col_max, col_spacing)

    def write_text(self, text: str) -> None:
        super().write_text(_filled(text, max(self.width - self.current_indent, 11)))


_AS_IT_IS = "\b"
"""click leaves a paragraph alone that begins with this line."""


def _filled(text: str, room: int) -> str:
    """The text in lines, since click counts characters, and cuts Chinese text in the middle of its Latin words."""
    paragraphs = [
        part if part.lstrip().startswith(_AS_IT_IS) else "\n".join([_AS_IT_IS, *filled(part, room)])
        for part in text.split("\n\n")
    ]
    return "\n\n".join(paragraphs)


def _default_in_their_words(text: str) -> str:
    """What click itself puts behind the words for an option."""
    found = re.fullmatch(r"(.*\[(?:.*; )?)default: (.*\])", text, re.DOTALL)
    return found[1] + local("default: ") + found[2] if found else text


class _TheirContext(click.Context):
    formatter_class = _TheirFormatter


def _in_their_words(command: click.Command) -> click.Command:
    """The command with what it says of itself in the language of the terminal."""
    if language() == "en":
        return command
    # A copy: the module's own is used by others.
    command = copy(command)
    command.help = _help_in_their_words(command.help or "")
    command.epilog = translated(command.epilog or "")
    command.context_class = _TheirContext
    command.params = [_option_in_their_words(one) for one in command.params]
    if isinstance(command, click.Group):
        command.commands = {n: _in_their_words(one) for n, one in command.commands.items()}
    return command


def _help_in_their_words(text: str) -> str:
    """Paragraph by paragraph: click fills their lines anew, but for those that a backspace marks."""
    paragraphs = [
        part if part.startswith("\b") else " ".join(part.split())
        for part in cleandoc(text).split("\n\n")
    ]
    return translated("\n\n".join(paragraphs))


def _option_in_their_words(one: click.Parameter) -> click.Parameter:
    if not isinstance(one, click.Option) or not one.help:
        return one
    words = translated(one.help)
    one = copy(one)
    one.help = words
    return one


@click.group(
    cls=LazyGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Shell completion of commands, jobs and devices (zsh_source and fish_source for other shells): "
    'eval "$(_JUMAR_COMPLETE=bash_source jumar)"',
)
@click.version_option(__version__, prog_name="jumar", message="%(prog)s %(version)s")
def root() -> None:
    """Training jobs on a lab's cards: a queue, live logs and web pages.

    \b
    jumar demo                                     see it work
    jumar run --device npu:2 -- python train.py    queue a job
    """


def _meant(error: click.UsageError) -> str | None:
    """The command that a mistyped one looks like."""
    context = error.ctx
    typed = _UNKNOWN.fullmatch(error.message)
    if typed is None or context is None or not isinstance(context.command, click.Group):
        return None
    known = context.command.list_commands(context)
    # Imported here: only for a command that does not exist.
    from difflib import get_close_matches

    near = get_close_matches(typed[1], known, n=2, cutoff=0.55)
    if not near:
        return None
    return f"did you mean: {local(' or ').join(f'{context.command_path} {name}' for name in near)}"


def run(arguments: Sequence[str]) -> int:
    """Run one command line and give its exit code."""
    try:
        answer: object = _in_their_words(root).main(
            args=list(arguments), prog_name="jumar", standalone_mode=False
        )
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return 2
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "jumar"
        # click's own guesses would say the same twice, in English.
        is_unknown = _UNKNOWN.fullmatch(error.message) is not None
        words = error.message if is_unknown else error.format_message()
        complain(words, hint=_meant(error) or f"{path} --help")
        return error.exit_code
    except _ReaderLeftError as error:
        raise BrokenPipeError from error
    except click.ClickException as error:
        complain(error.format_message())
        return 2
    except click.Abort:
        return 130
    except JumarError as error:
        complain(error.message, hint=error.hint)
        return 2
    return answer if isinstance(answer, int) else 0
