"""Which role a node has in a run of several."""

import socket
from typing import Callable

from jumar.launch.nodes.guest import Guest
from jumar.launch.nodes.host import Host, PortTaken
from jumar.launch.nodes.team import Team
from jumar.launch.options import Options
from jumar.launch.processes.control import Control


def make_team(options: Options, control: Control, say: Callable[[str], None]) -> Team:
    """The role of this node; raises NotTogether when it cannot listen."""
    if options.nodes == 1:
        return Team(options, control, say)
    node = options.node
    if node == 0:
        return Host(options, control, say)
    if node is None and is_own_address(options.master):
        try:
            return Host(options, control, say)
        except PortTaken:
            # By the node 0 of a run that has several nodes on this machine.
            return Guest(options, control, say)
    return Guest(options, control, say)


def is_own_address(host: str) -> bool:
    """Whether this machine has the address: only then can it be bound."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, _, _, address in found:
        try:
            with socket.socket(family, kind) as probe:
                probe.bind(address)
        except OSError:
            continue
        return True
    return False
