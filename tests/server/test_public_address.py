"""Behind a proxy on the same machine: the server listens to that machine only, and has a name all the same."""

from collections.abc import Generator

import pytest
from tests.server.conftest import Running, serving

PAGES = "http://jumar.example.org:8080"


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with serving(tmp_path_factory.mktemp("behind"), public_url=PAGES) as server:
        yield server


@pytest.mark.parametrize(
    ("name", "status"),
    [("jumar.example.org:8080", 200), ("jumar.example.org", 200), ("evil.example", 422)],
)
def test_it_answers_to_its_public_name_too(behind: Running, name: str, status: int) -> None:
    answer = behind.api("GET", "/jobs", headers={"Host": name})
    assert answer.status == status
    assert status == 200 or "--public-url" in answer.json["error"]["hint"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        # As proxies pass it on, and as they do when nobody has told them to.
        ({"Host": "jumar.example.org:8080", "Origin": PAGES}, 204),
        ({"Host": "jumar.example.org", "Origin": PAGES}, 204),
        ({"Origin": PAGES, "Sec-Fetch-Site": "same-origin"}, 204),
        ({"Origin": "http://b.example", "X-Forwarded-Host": "b.example, proxy"}, 204),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "jumar.example.org:8080", "Origin": "http://jumar.example.org:8081"}, 403),
        ({"Origin": "null", "X-Forwarded-Host": ""}, 403),
        ({"Origin": PAGES, "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_its_own_pages_may_send_and_those_of_others_may_not(
    behind: Running, headers: dict[str, str], status: int
) -> None:
    job = behind.running_job("ann").id
    path = f"/jobs/{job}/endpoints/jupyter"
    assert behind.api("DELETE", path, headers=headers).status == status


def test_all_it_says_leads_to_the_public_address(behind: Running) -> None:
    made = behind.api("POST", "/repos", body={"kind": "model", "name": "net"})
    assert made.json["clone_url"].startswith(f"{PAGES}/git/")
    assert behind.api("GET", "/jobs", user=None).json["error"]["hint"].endswith(PAGES)
