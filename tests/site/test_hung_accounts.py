"""A directory server that hangs: whoever is looked up there waits for a while, and nobody else does."""

import json
import os
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.site.api import api
from tests.site.conftest import CLEAN, Host, new_id

from jumar.people.lookups import LIMIT_S

pytestmark = pytest.mark.full
_HANGS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* The file names what hangs ("pw" or "groups") and whom, while it exists. */
static void hang(const char *what, const char *name, unsigned uid) {
  char path[256], link[256], id[256];
  for (;;) {
    strcpy(path, getenv("HANGS")); strcat(path, what);
    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n < 0) return;
    link[n] = 0;
    char *colon = strchr(link, ':'); *colon = 0; strcpy(id, colon + 1);
    if (!(name ? !strcmp(name, link) : uid == (unsigned) atoi(id))) return;
    usleep(20000);
  }
}
int getpwnam_r(const char *n, struct passwd *p, char *b, size_t s, struct passwd **r) {
  hang("pw", n, 0);
  return ((int (*)(const char *, struct passwd *, char *, size_t, struct passwd **)) dlsym(RTLD_NEXT, "getpwnam_r"))(n, p, b, s, r);
}
int getpwuid_r(uid_t u, struct passwd *p, char *b, size_t s, struct passwd **r) {
  hang("pw", 0, u);
  return ((int (*)(uid_t, struct passwd *, char *, size_t, struct passwd **)) dlsym(RTLD_NEXT, "getpwuid_r"))(u, p, b, s, r);
}
int getgrouplist(const char *n, gid_t g, gid_t *l, int *c) {
  hang("groups", n, 0);
  return ((int (*)(const char *, gid_t, gid_t *, int *)) dlsym(RTLD_NEXT, "getgrouplist"))(n, g, l, c);
}
int initgroups(const char *n, gid_t g) {
  hang("drop", n, 0);
  return ((int (*)(const char *, gid_t)) dlsym(RTLD_NEXT, "initgroups"))(n, g);
}
"""


class Directory:
    """The accounts of a host whose system calls go through ours."""

    def __init__(self, host: Host, folder: Path) -> None:
        self._host, self._folder = host, folder

    def hang(self, what: str, user: str) -> None:
        (self._folder / what).symlink_to(f"{user}:{self._host.uid(user)}")

    def answer(self) -> None:
        for what in ("pw", "groups", "drop"):
            (self._folder / what).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def directory(host: Host) -> Generator[Directory]:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    folder = host.top / "hangs"
    folder.mkdir(mode=0o755)
    source, made = folder / "hangs.c", folder / "hangs.so"
    source.write_text(_HANGS)
    words = ["gcc", "-shared", "-fPIC", "-o", str(made), str(source), "-ldl"]
    subprocess.run(words, check=True, timeout=60)
    made.chmod(0o755)
    variables = {"LD_PRELOAD": str(made), "HANGS": f"{folder}/"}
    host.end_root()
    host.start_root(**variables)
    host.start_server(**variables)
    directory = Directory(host, folder)
    yield directory
    directory.answer()


@pytest.fixture(autouse=True)
def answering(directory: Directory) -> Generator[None]:
    yield
    directory.answer()


@pytest.mark.parametrize("what", ["pw", "groups"])
def test_root_serves_others_meanwhile(host: Host, directory: Directory, what: str) -> None:
    ann, ben, _ = host.users
    first, second = new_id(), new_id()
    directory.hang(what, ann)
    told = host.told(first, "true", ann)
    with host.connection() as waiting:
        request = json.dumps(host.message(first, ann)).encode()
        socket.send_fds(waiting, [request], [told])
        assert host.start(second, "true", ben)["ok"]
        assert host.result(second)["state"] == "succeeded"
        assert not select.select([waiting], [], [], 0)[0]
        directory.answer()
        assert json.loads(waiting.recv(65536)) == {"ok": True}
    os.close(told)
    assert host.result(first)["state"] == "succeeded"


def test_the_server_serves_others_and_knows_whom_it_has_seen(
    host: Host, directory: Directory
) -> None:
    ann, ben, _ = host.users
    host.jumar(ann, "jobs")
    directory.hang("groups", ann)
    began = time.monotonic()
    words = [*host.identity(ann), str(host.command), "jobs"]
    variables = CLEAN | {"HOME": str(host.home(ann)), "JUMAR_SITE_SOCKET": str(host.door)}
    with subprocess.Popen(words, env=variables, stdout=subprocess.DEVNULL) as hung:
        api(host, ben, "GET", "/jobs")
        # What was known of ann is good still.
        assert hung.wait(60) == 0
    assert time.monotonic() - began >= LIMIT_S


def test_who_was_never_seen_is_told_to_try_again(host: Host, directory: Directory) -> None:
    new = host.users[2]
    directory.hang("pw", new)
    refused = api(host, new, "GET", "/jobs", expect=503)
    assert "cannot be looked up" in str(refused)
    directory.answer()
    # The answer that comes late is one.
    host.jumar(new, "jobs")


def test_a_hung_lookup_ends_by_itself(host: Host, directory: Directory) -> None:
    ann = host.users[0]
    directory.hang("pw", ann)
    with pytest.raises((OSError, ValueError)):
        host.start(new_id(), "true", ann)
    directory.answer()
    job = new_id()
    directory.hang("drop", ann)
    assert host.start(job, "true", ann)["ok"]
    ended = host.result(job)
    assert (ended["state"], ended["cause"]) == ("lost", "start-fails"), ended
    assert "could not be looked up" in ended["values"]["error"]
