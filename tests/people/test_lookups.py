"""Accounts are looked up with a limit: a directory server may hang."""

import os
import pwd
import threading

import pytest

from jumar.errors import Unavailable
from jumar.people.lookups import Lookups


class Hanging:
    """Answers as the system does, once it may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_answer = threading.Event()
        self.questions = 0
        self._real = pwd.getpwuid
        monkeypatch.setattr(pwd, "getpwuid", self._getpwuid)

    def _getpwuid(self, uid: int) -> pwd.struct_passwd:
        self.questions += 1
        assert self.may_answer.wait(60)
        return self._real(uid)


def test_a_hung_system_is_asked_once_and_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, lookups = Hanging(monkeypatch), Lookups(0.05)
    for _ in range(50):
        with pytest.raises(Unavailable, match="cannot be looked up"):
            lookups.by_uid(0)
    assert hanging.questions == 1
    hanging.may_answer.set()
    assert Lookups(60).by_uid(0).pw_name == "root"


def test_what_was_known_is_good_while_it_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, lookups = Hanging(monkeypatch), Lookups(0.5)
    hanging.may_answer.set()
    known = lookups.by_uid(0)
    hanging.may_answer.clear()
    assert lookups.by_uid(0) == known
    hanging.may_answer.set()


def test_groups_and_strangers_are_as_the_system_says() -> None:
    lookups = Lookups(60)
    root = lookups.by_name("root")
    assert lookups.groups_of("root", root.pw_gid) == set(os.getgrouplist("root", root.pw_gid))
    assert lookups.group("root") == 0
    with pytest.raises(KeyError):
        lookups.by_name("nobody-has-this-name")
    with pytest.raises(KeyError):
        lookups.group("nobody-has-this-name")
    with pytest.raises(ValueError, match="null"):
        lookups.by_name("nobody\0")
