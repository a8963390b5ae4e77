"""Nodes that may come and go: a run of between `least` and `nodes` of them.

In each round one node leads, as in a run of a fixed number, and every round is a meeting of its own: ranks
and world size are new. Every node has a door, and whoever knocks at a node that does not lead is sent
to the one that does. When the leader is lost the first node of those that are left takes its place,
and tells whoever comes to the address where the run began.

There are never two groups at once. A group goes on only with more than half of the nodes of the last round
that are not known to be dead, or with half of them and its old leader; known to be dead is a node whose
process has hung up. Where others are just silent, it waits until these must have ended their ranks."""

import time
from typing import Callable, Collection, List, Optional, Set, Union

from jumar.launch.nodes.channel import SEND_LIMIT_S, Channel
from jumar.launch.nodes.door import Door, PortTaken, is_own_address
from jumar.launch.nodes.rounds import (
    Address,
    Moved,
    RoundLeader,
    RoundMember,
    Term,
    first_term,
    next_term,
)
from jumar.launch.nodes.team import Dead, Hello, Meeting, Message, NotTogether, Over, Refused, Team
from jumar.launch.processes.control import Control, Interrupted
from jumar.launch.ranks.frameworks import Group
from jumar.launch.verdict import Summary, Verdict

_ASK_AGAIN_S = 0.3


class Elastic(Team):
    """One node of such a run."""

    def __init__(self, meeting: Meeting, control: Control, say: Callable[[str], None]) -> None:
        """Raises NotTogether when it cannot listen."""
        super().__init__(meeting._replace(node=None), control, say)
        self._is_origin = meeting.node == 0 or is_own_address(meeting.master)
        self._door = self._open_door()
        self._hello = Hello(1, None)
        self._origin: Address = (meeting.master, meeting.port)
        self._leader_at = self._origin
        self._doors: List[Address] = []
        """Of the nodes of the last round."""
        self._round: Optional[Union[RoundLeader, RoundMember]] = None

    def join(self, hello: Hello) -> Group:
        """The first round that has room for this node; raises NotTogether, or Over."""
        self._hello = hello._replace(door=self._door.port)
        if not self._is_origin:
            return self._follow(self._origin, -1, self._meeting.join_limit_s, has_door=False)
        return self._lead_unless_led(
            -1, lambda again: first_term(self._meeting, after_another=again), self._meeting, set()
        )

    def once(self, prepare: Callable[[], None]) -> None:
        """The leader does it."""
        self._this_round().once(prepare)

    def gather(self) -> None:
        """The leader counts."""
        self._this_round().gather()

    def failed(self, failure: Verdict) -> None:
        """The leader is told."""
        self._this_round().failed(failure)

    def idle(self, is_so: bool) -> None:
        """The leader is told."""
        self._this_round().idle(is_so)

    def must_hold(self) -> bool:
        """As the leader says."""
        return self._this_round().must_hold()

    def held(self) -> None:
        """The leader is told."""
        self._this_round().held()

    def settle(self, summary: Summary) -> Verdict:
        """A leader that is lost ends the round, not the run."""
        verdict = self._this_round().settle(summary)
        if self._is_leaderless() and verdict.cause == "node-lost":
            has_one_left = self._meeting.restarts > self._restart
            if has_one_left and summary.stop is None:
                self._door.open_to(None)
                return verdict._replace(again=True)
        return verdict

    def again(self, before: Group) -> Group:
        """The next round, under whoever leads it; raises NotTogether, or Over."""
        last = self._this_round()
        if isinstance(last, RoundLeader):
            term = last.term_after()
            last.retire()
            join_limit_s = self._meeting.join_limit_s
            return self._lead(term, last.meeting._replace(join_limit_s=join_limit_s))
        is_dead = last.is_leader_lost and last.is_leader_dead
        is_lost = last.is_leader_lost
        last.close()
        if not is_lost or is_dead:
            # One that has hung up may only have given this node up, and go on without it.
            try:
                return self._follow(self._leader_at, before.restart, self._patience_s())
            except NotTogether as error:
                is_dead = is_dead or isinstance(error, Dead)
        return self._succeed(before, is_dead)

    def close(self) -> None:
        """Hang up."""
        if self._round is not None:
            self._round.close()
        self._door.close()

    def _this_round(self) -> Union[RoundLeader, RoundMember]:
        if self._round is None:
            raise NotTogether("there was no round")
        return self._round

    def _is_leaderless(self) -> bool:
        return isinstance(self._round, RoundMember) and self._round.is_leader_lost

    def _patience_s(self) -> float:
        """Another node may learn later that the leader is lost, and then ends its ranks first."""
        return self._meeting.node_limit_s + self._meeting.grace_s

    def _open_door(self) -> Door:
        if self._is_origin:
            try:
                return Door(self._meeting, self._control, self._meeting.port)
            except PortTaken:
                # By another node of this run, on the same machine.
                self._is_origin = False
        return Door(self._meeting, self._control, 0)

    def _lead(self, term: Term, meeting: Meeting, gone: Collection[Address] = ()) -> Group:
        origin = None if self._is_origin else self._origin
        leader = RoundLeader(meeting, self._control, self._say, self._door, term, origin, gone)
        self._round = leader
        try:
            group = leader.join(self._hello)
        except Moved:
            leader.retire()
            raise
        self._doors = leader.doors
        return self._entered(group, leader)

    def _follow(
        self,
        where: Address,
        was: int,
        connect_limit_s: float,
        lost: Optional[Address] = None,
        *,
        has_door: bool = True,
    ) -> Group:
        """In a round that the node at `where` leads, or one that it names, other than `lost`; `has_door`:
        it has listened before. Raises Dead only of the node at `where`."""
        first, until = where, time.monotonic() + self._meeting.join_limit_s
        while True:
            member = self._member(where, was, connect_limit_s, has_door=has_door or where != first)
            try:
                group = member.join(self._hello)
            except Moved as moved:
                member.close()
                where = first if moved.where == lost else moved.where
            except (Refused, Over, Interrupted):
                member.close()
                raise
            except NotTogether:
                member.close()
                if member.is_put_off and not self._is_origin:
                    where, until = self._origin, time.monotonic() + self._meeting.join_limit_s
                elif where == first:
                    raise
                else:
                    # Whoever has named it will soon know better.
                    where = first
            else:
                self._doors = member.doors
                return self._entered(group, member)
            if time.monotonic() >= until:
                raise NotTogether("no node knows who leads")
            self._control.pause(_ASK_AGAIN_S)
            self._control.check()

    def _member(
        self, where: Address, was: int, connect_limit_s: float, *, has_door: bool
    ) -> RoundMember:
        """Of the round of the node at `where`, to which others are sent on from now on."""
        meeting = self._meeting._replace(master=where[0], port=where[1])
        limit_s = min(connect_limit_s, self._patience_s()) if has_door else connect_limit_s
        member = RoundMember(meeting, self._control, self._say, was, limit_s, has_door=has_door)
        self._round, self._leader_at = member, where
        self._door.open_to(self._send_on)
        return member

    def _succeed(self, before: Group, is_dead: bool) -> Group:
        """Follow the first node that is left, or be it."""
        doors, lost = self._doors, self._leader_at
        gone: Set[Address] = {lost} if is_dead else set()
        for node in range(1, before.node):
            try:
                return self._follow(doors[node], before.restart, self._patience_s(), lost)
            except Dead:
                gone.add(doors[node])
            except NotTogether:
                continue
        # Whoever is left comes soon. A node that is cut off from all need not wait for long.
        limit_s = min(self._meeting.join_limit_s, 2 * self._patience_s() + 2 * SEND_LIMIT_S)
        own = self._meeting._replace(
            master=doors[before.node][0], port=self._door.port, join_limit_s=limit_s
        )

        def term(again: bool) -> Term:
            known = before.nodes - len(gone.intersection((lost, *doors[1:])))
            restart = before.restart + 1
            return next_term(self._meeting, restart, known, leads=False, is_smaller=True)

        return self._lead_unless_led(before.restart, term, own, gone)

    def _lead_unless_led(
        self, was: int, term: Callable[[bool], Term], own: Meeting, gone: Set[Address]
    ) -> Group:
        """Lead, or follow the node that says it does. `term` is told whether one did that is gone since;
        those that are dead are added to `gone`."""
        until, again = time.monotonic() + self._meeting.join_limit_s, False
        while True:
            try:
                return self._lead(term(again), own, gone)
            except Moved as moved:
                where, again = moved.where, True
            try:
                return self._follow(where, was, self._patience_s())
            except Refused:
                raise
            except Dead:
                # Those were its last words.
                gone.add(where)
            except NotTogether:
                if not self._is_put_off() and time.monotonic() >= until:
                    raise

    def _is_put_off(self) -> bool:
        return isinstance(self._round, RoundMember) and self._round.is_put_off

    def _entered(self, group: Group, team: Team) -> Group:
        self._restart, self.parts = group.restart, team.parts
        return group

    def _send_on(self, channel: Channel, message: Optional[Message]) -> None:
        """Whoever knocks here is sent to the leader."""
        if message is not None and message.get("id") == self._meeting.key and "lead" not in message:
            channel.send({"moved": self._leader_at})
            channel.is_retired = True
