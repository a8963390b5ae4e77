"""The submit form: what it reads is what a job file would be, and nothing slips through it."""

import re
import shlex
from html import unescape
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.server.conftest import Answer, Running

from jumar.server.web import job_form
from jumar.spec.job import MASK, JobSpec

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SECRET = "s3cret-value"
EVIL = "<script>alert(1)</script>"


def post(server: Running, path: str, user: str = "ann", **values: str) -> Answer:
    return server.ask("POST", path, user=user, body=urlencode(values).encode(), headers=FORM)


def form_in(page: str) -> dict[str, str]:
    """What a browser would send back of a page, as far as the tests need it."""
    sent = dict(re.findall(r'<input[^>]* name="(\w+)" value="([^"]*)"', page))
    sent |= {n: v for n, v in re.findall(r'<textarea[^>]* name="(\w+)"[^>]*>\n([^<]*)<', page)}
    for name, options in re.findall(r'<select[^>]* name="(\w+)"[^>]*>(.*?)</select>', page):
        chosen = re.findall(r'value="(\w+)" selected', options)
        sent |= {name: chosen[0]} if chosen else {}
    return {name: unescape(value) for name, value in sent.items()}


names = some.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
texts = some.text(some.characters(codec="utf-8", exclude_categories=("C",)), max_size=20)
seconds = some.integers(1, 100_000)
places = some.dictionaries(names, names.map("obs://bucket/{}/".format), max_size=3)


@settings(max_examples=40, deadline=None)
@given(
    some.fixed_dictionaries(
        {
            "name": some.from_regex(r"[a-z]([.-]?[a-z0-9]){0,4}", fullmatch=True),
            "command": some.lists(texts.filter(str.strip), min_size=1, max_size=4),
            "device": some.sampled_from(["npu:8", "gpu", "sim:2", "cpu"]),
        },
        optional={
            "environment": some.dictionaries(names, texts | some.just(" a\nb "), max_size=4),
            "inputs": places,
            "ckpt": some.just("/data/ckpt"),
            "image": names,
            "preemptible": some.booleans(),
            "time_limit": seconds,
            "grace": seconds,
            "hang_limit": some.just(0) | seconds,
            "segments": some.just("auto") | some.integers(1, 9),
            "retries": some.integers(0, 5),
            "endpoints": some.lists(some.sampled_from(["ssh", "jupyter"]), unique=True),
            "after": some.lists(names, max_size=3),
            "array": some.just("0-3%2"),
            "workdir": some.just("/srv/a b"),
            "activate": some.lists(names.map("module load {}".format), min_size=1, max_size=2),
        },
    )
)
def test_a_job_goes_through_the_form_unchanged(values: dict[str, object]) -> None:
    spec = JobSpec.model_validate(values)
    found = job_form.check(job_form.fill(spec), spec)
    assert isinstance(found, JobSpec), found
    line = spec.command if isinstance(spec.command, str) else shlex.join(spec.command)
    assert found == spec.model_copy(update={"command": line.strip()})


def test_every_field_of_a_job_has_its_place_in_the_form() -> None:
    shown = {field.name for section in job_form.sections() for field in section.fields}
    assert set(JobSpec.model_fields) - shown <= {
        "device",
        "code",
        "launch",
        "resume",
        "measure",
        "slurm",
    }


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": "../x"}, "name"),
        ({"command": ""}, "command"),
        ({"device_count": "many"}, "device_kind"),
        ({"nodes": "2"}, "nodes"),
        ({"nodes": "9" * 5000}, "nodes"),
        ({"environment": "no equals sign"}, "environment"),
        ({"environment": "A=1\nA=2"}, "environment"),
        ({"environment": f"API_KEY={MASK}"}, "environment"),
        ({"inputs": "data_url=ftp://x"}, "inputs"),
        ({"code_from": "git", "git": "ext::sh -c id"}, "code_from"),
        ({"code_from": "upload"}, "code_from"),
        ({"code_from": "workdir", "workdir": "here"}, "workdir"),
        ({"segments": "-1"}, "segments"),
        ({"more": "no_such_field: 1"}, "more"),
        ({"more": "&a [*a, *a]"}, "more"),
        ({"more": "{" * 5000}, "more"),
    ],
)
def test_a_fault_is_said_at_its_field(values: dict[str, str], field: str) -> None:
    found = job_form.check({**job_form.empty("cpu"), "name": "x", "command": "true", **values})
    assert isinstance(found, list)
    assert field in {name for name, _ in found}


def test_the_preview_says_what_runs_where_and_why_it_waits(running: Running) -> None:
    good = {"name": "x", "command": "true", "device_kind": "sim", "device_count": "8"}
    assert "Starts immediately" in post(running, "/submit/check", **good).text
    running.running_job(device="sim:8", time_limit=600)
    waits = post(running, "/submit/check", **good).text
    assert "Starts immediately" not in waits
    assert "<time " in waits
    too_many = post(running, "/submit/check", **{**good, "device_count": "64"}).text
    assert "Starts immediately" not in too_many
    bad = post(running, "/submit/check", name=EVIL, command="true", time_limit=EVIL)
    assert (bad.status, EVIL in bad.text) == (200, False)
    assert 'data-of="time_limit"' in bad.text
    assert running.api("GET", "/jobs").json["total"] == 1


def test_a_chinese_form_speaks_chinese(running: Running) -> None:
    bad = {"name": "x", "command": "", "time_limit": "soon", "environment": "no equals sign"}
    for path in ("/submit/check?lang=zh", "/submit?lang=zh"):
        page = unescape(post(running, path, **bad).text)
        assert "未填写" in page
        assert "“soon”不是时长；请写 90s、30m、1h30m 或 2d" in page
        assert "“no equals sign”：请写 NAME=VALUE，每行一个" in page
        assert "is missing" not in page


def test_two_clicks_submit_one_job_and_a_bad_form_comes_back_as_it_was(running: Running) -> None:
    values = {**form_in(running.ask("GET", "/submit").text), "name": "twice", "command": "true"}
    first, second = post(running, "/submit", **values), post(running, "/submit", **values)
    assert (first.status, first.headers["Location"]) == (303, second.headers["Location"])
    assert running.api("GET", "/jobs").json["total"] == 1
    bad = post(running, "/submit", **{**values, "key": "other", "time_limit": "soon"})
    assert bad.status == 422
    assert form_in(bad.text)["command"] == "true"
    assert "soon" in bad.text


def test_a_clone_keeps_secrets_that_its_page_does_not_show(running: Running) -> None:
    job = running.submit(environment={"API_KEY": SECRET, "LR": "1"}, device="sim:2")
    page = running.ask("GET", f"/submit?from={job.id}").text
    assert SECRET not in page
    sent = {**form_in(page), "name": "clone"}
    made = post(running, "/submit", **sent)
    assert made.status == 303
    clone = made.headers["Location"].rpartition("/")[2]
    assert running.site.service.spec_of(clone).environment == {"API_KEY": SECRET, "LR": "1"}
    # Who may not open the job gets nothing of it, whatever the form says.
    stolen = post(running, "/submit", "bob", **sent)
    assert stolen.status == 403


def test_templates_are_ones_own_or_shared_and_hold_no_secrets(running: Running) -> None:
    values = {"name": "base", "command": "true", "device_kind": "cpu"}
    environment = f"API_KEY={SECRET}"
    post(running, "/submit", template="own", environment=environment, **values)
    post(running, "/submit", template="shared", **{**values, "name": "ours"})
    mine, theirs = (running.ask("GET", "/submit", user=user).text for user in ("ann", "bob"))
    assert (">base<" in mine, ">base<" in theirs) == (True, False)
    assert ">ours" in theirs
    kept = running.site.service.templates.all("ann")
    assert SECRET not in repr(kept)
    base = next(template.id for template in kept if template.spec.name == "base")
    assert running.ask("GET", f"/submit?template={base}", user="bob").status == 404
    filled = form_in(running.ask("GET", f"/submit?template={base}").text)
    assert post(running, "/submit", **filled).status == 422
    assert post(running, f"/submit/templates/{base}/delete", "bob").status == 404
    assert post(running, f"/submit/templates/{base}/delete").status == 303
    assert running.api("GET", "/jobs").json["total"] == 0


def test_the_picker_shows_the_store_and_no_path_of_the_machine(running: Running) -> None:
    folder = running.home / "store" / "lab" / f"data {EVIL.replace('/', '')}"
    folder.mkdir(parents=True)
    assert "obs://lab/" in running.ask("GET", "/submit/browse").text
    level = running.ask("GET", "/submit/browse?place=obs://lab/").text
    assert "data &lt;script" in level
    for place in ("/etc/", "file:///etc/", "obs://../", "obs://lab/../../", "ftp://x/"):
        answer = running.ask("GET", f"/submit/browse?{urlencode({'place': place})}")
        assert (answer.status, "passwd" in answer.text) == (200, False)
        assert 'class="problem"' in answer.text
