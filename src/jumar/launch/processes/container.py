"""The client's command line that runs a rank in a container.

Paths are the same on both sides, and so is the user. Variables reach the client in its own environment
and are named on its command line without their values, which everybody could read there; only those that
would change the client itself are written out.

The first process is a shell of ours. The kernel gives process 1 of a container no signal that it has no
handler for, and a container ends with it: so it asks whom the launcher would ask outside, the command and
what a shell runs, and stays until they have ended. What was started beside them is not waited for: it ends
with the container."""

import os
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from jumar.launch.processes.namespace import Mount
from jumar.launch.processes.network import Network
from jumar.launch.processes.spawn import Program

_SHELL = "/bin/sh"
_INIT = r"""
ask() {
    name= below=
    read -r name <"/proc/$2/comm" || return
    case $name in sh | bash | dash | ash | zsh | ksh | busybox)
        read -r below <"/proc/$2/task/$2/children"
        for one in $below; do ask "$1" "$one"; done ;;
    esac
    kill -"$1" "$2"
} 2>/dev/null
asked=
for number in TERM INT HUP USR1 USR2; do
    trap "asked=$number; ask $number \$child" $number
done
"$@" &
child=$!
while :; do
    wait $child
    code=$?
    kill -0 $child 2>/dev/null || break
done
left() {
    below=
    read -r below <"/proc/$$/task/$$/children"
    [ -n "$below" ]
} 2>/dev/null
while [ -n "$asked" ] && [ $code -gt 128 ] && left; do
    sleep 0.1 || break
done
exit $code
"""
# A client that is killed takes nothing with it but its end of the input. Where a container has the machine's
# own /tmp, as apptainer's do, the folder is there already and stays.
_HELD = r"""
umask 077
own=
mkdir "$1" 2>/dev/null && own=yes
ln -sfn "$2" "$1/{place}" || exit
folder=$1
shift 2
exec 3<&0 </dev/null
"$@" 3<&- &
child=$!
{{ while read -r line; do :; done <&3; kill $child; sleep 3; kill -9 $child; }} >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait $child
code=$?
kill $watcher
[ -z "$own" ] || rm -rf "$folder"
exit $code
"""
_ANY_SHELL = 'if command -v bash >/dev/null; then exec bash -c "$0"; fi; exec sh -c "$0"'
_OF_CLIENT = frozenset(("PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "DBUS_SESSION_BUS_ADDRESS"))
APPTAINERS = ("apptainer", "singularity")
_PREFIXES = ("LD_", "XDG_", "DOCKER_", "CONTAINER", "PODMAN_", "STORAGE_", "BUILDAH_", "GO")


class Container(NamedTuple):
    """What an attempt's ranks run in."""

    program: str
    """The full path of podman, docker or apptainer."""
    image: str
    options: Tuple[str, ...] = ()
    """Its devices."""

    @property
    def is_podman(self) -> bool:
        """Else docker."""
        return os.path.basename(self.program).startswith("podman")

    @property
    def is_apptainer(self) -> bool:
        """Which shows a container all of the machine's devices, and has no names for what runs."""
        return _is_apptainer(self.program)


class Wrapping(NamedTuple):
    """All that does not depend on the rank."""

    container: Container
    name: str
    mounts: Tuple[Mount, ...]
    read_only: Tuple[Mount, ...]
    host: Mapping[str, str]
    """The launcher's own variables: the client's."""
    network: Optional[Network] = None

    def name_of(self, rank: int) -> str:
        """What the container of a rank is called."""
        return f"{self.name}-{'scheduler' if rank < 0 else f'rank{rank}'}"

    def wrapped(self, program: Program, rank: int) -> Program:
        """The client that runs the program."""
        if self.container.is_apptainer:
            return self._by_apptainer(program)
        container, name = self.container, self.name_of(rank)
        own = {variable for variable in program.environment if _is_clients(variable)}
        shown = [
            f"--env={variable}={value}" if variable in own else f"--env={variable}"
            for variable, value in sorted(program.environment.items())
        ]
        argv = [container.program, "run", "--rm", f"--name={name}", "--pull=never"]
        argv += [self._network(), "--ipc=host", "--pids-limit=-1", "--log-driver=none"]
        argv += ["--security-opt=label=disable", f"--workdir={program.directory}"]
        argv += [*self._user(), *container.options, *self._mounts(), *shown]
        argv += [f"--entrypoint={_SHELL}", container.image, "-c", _INIT, "jumar", *program.argv]
        variables = {n: v for n, v in program.environment.items() if n not in own}
        variables.update((n, v) for n, v in self.host.items() if _is_clients(n))
        enter = (container.program, "exec", "--interactive", f"--workdir={program.directory}", name)
        return program._replace(argv=argv, environment=variables, directory="/", enter=enter)

    def _by_apptainer(self, program: Program) -> Program:
        """It becomes the program, whose signals and processes are as without a container."""
        container = self.container
        # It mounts in this order, and a folder hides what was mounted in it before.
        shown = [(one, ":ro") for one in self.read_only] + [(one, "") for one in self.mounts]
        shown.sort(key=lambda pair: pair[0].target)
        binds = [f"--bind={one.source}:{one.target}{mode}" for one, mode in shown]
        enter = [container.program, "exec", "--cleanenv", "--no-home", f"--pwd={program.directory}"]
        enter += [*container.options, *binds, container.image]
        prefix = os.path.basename(container.program).upper() + "ENV_"
        # The image has a path of its own.
        told = {f"{prefix}{n}": v for n, v in program.environment.items() if n != "PATH"}
        variables = {**self.host, **told}
        argv = [*enter, *program.argv]
        return program._replace(argv=argv, environment=variables, directory="/", enter=tuple(enter))

    def _network(self) -> str:
        """Ranks of a node share one that is closed, where the client can join it."""
        if self.network is None:
            return "--network=host"
        if self.container.is_podman and self.network.users is None:
            return f"--network=ns:{self.network.net}"
        return "--network=none"

    def _user(self) -> List[str]:
        words = [f"--user={os.getuid()}:{os.getgid()}"]
        if self.container.is_podman and os.getuid() != 0:
            words.append("--userns=keep-id")
        return words

    def _mounts(self) -> List[str]:
        return [_mount(one, ",readonly", ":ro") for one in self.read_only] + [
            _mount(one, "", "") for one in self.mounts
        ]


def _mount(mount: Mount, option: str, suffix: str) -> str:
    if "," in mount.source + mount.target:
        return f"--volume={mount.source}:{mount.target}{suffix}"
    return f"--mount=type=bind,source={mount.source},target={mount.target}{option}"


def _is_clients(variable: str) -> bool:
    return variable in _OF_CLIENT or variable.startswith(_PREFIXES)


def is_elsewhere(program: Program) -> bool:
    """Whether its processes are not below the launcher: docker's daemon has started them."""
    return has_own_shell(program) and os.path.basename(program.enter[0]) != "podman"


def has_own_shell(program: Program) -> bool:
    """Whether a shell of ours is the first process of its container."""
    return bool(program.enter) and not _is_apptainer(program.enter[0])


def _is_apptainer(client: str) -> bool:
    return os.path.basename(client) in APPTAINERS


def shell_line(command: str) -> List[str]:
    """The argument vector of a line for the image's own shell."""
    return [_SHELL, "-c", _ANY_SHELL, command]


def entered(enter: Sequence[str], argv: Sequence[str], *, terminal: bool) -> List[str]:
    """The client's command line that runs another program beside a rank."""
    program, verb, *rest = enter
    # Apptainer makes no terminal of its own; each command has a container like the rank's.
    options = ["--tty"] if terminal and not _is_apptainer(program) else []
    flag = " -i" if terminal else ""
    shell = f"if command -v bash >/dev/null; then exec bash{flag}; fi; exec sh{flag}"
    return [program, verb, *options, *rest, *(argv or [_SHELL, "-c", shell])]


def folder_in(enter: Sequence[str]) -> str:
    """Where a program beside a rank begins."""
    flags = ("--workdir=", "--pwd=")
    return next((word.partition("=")[2] for word in enter if word.startswith(flags)), "/")


def held(
    enter: Sequence[str], argv: Sequence[str], short: str, shared: str, place: str
) -> List[str]:
    """As `entered`, for a program that ends when the client's input does. In there, `short` is a folder of
    its own, in which `place` leads to `shared`, a folder of both sides: paths of sockets must be short."""
    words = [_SHELL, "-c", _HELD.format(place=place), "jumar", short, shared, *argv]
    return entered(enter, words, terminal=False)


def variables_of(words: Sequence[str]) -> Dict[str, str]:
    """Of an image, as it tells them: NAME=VALUE each."""
    return {name: value for name, _, value in (word.partition("=") for word in words)}
