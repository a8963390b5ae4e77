"""`jumar simulate`: what it reads, what it runs, what it says."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.cli.app import run
from jumar.cli.simulate import command
from jumar.errors import BadInput
from jumar.simulate.measures import dealt_out, measure
from jumar.simulate.plot import plot
from jumar.simulate.readers import read_trace
from jumar.simulate.run import POLICIES, Told, run_policy
from jumar.simulate.workload import TraceJob, Workload, settled

SWF = "; MaxProcs: 64\n1 10 5 100 4 -1 -1 8 600 -1 1 7 1 1 1 1 -1 -1\n2 20 5 0 4 -1 -1 4 -1 -1 5 8 1 1 1 1 -1 -1\n"
PHILLY: list[dict[str, Any]] = [
    {
        "status": "Pass",
        "vc": "a",
        "jobid": "x",
        "user": "u1",
        "submitted_time": "2017-10-07 01:00:00",
        "attempts": [
            {
                "start_time": "2017-10-07 01:01:00",
                "end_time": "2017-10-07 01:02:00",
                "detail": [
                    {"ip": "m1", "gpus": ["gpu0", "gpu1"]},
                    {"ip": "m2", "gpus": ["gpu0", "gpu1"]},
                ],
            },
            {"start_time": "2017-10-07 01:03:00", "end_time": "None", "detail": []},
        ],
    },
    {"jobid": "y", "user": "u2", "submitted_time": "2017-10-07 02:00:00", "attempts": []},
]
HELIOS = (
    "job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "1,u1,8,32,1,COMPLETED,2020-04-01 00:00:30,2020-04-01 00:01:00,2020-04-01 00:02:00,60,30\n"
    "2,u1,0,32,1,COMPLETED,2020-04-01 00:00:30,2020-04-01 00:01:00,2020-04-01 00:02:00,60,30\n"
)
PAI = "abcdefghij,worker,4.0,Terminated,100.0,160.0,600.0,29.3,50.0,MISC\nzz,ps,1.0,Failed,100.0,,600.0,29.3,,CPU\n"
OWN = [
    {
        "id": "k1",
        "user": "ann",
        "device": "npu:2",
        "nodes": 2,
        "created_at": 5.0,
        "started_at": 6.0,
        "finished_at": 66.0,
    },
    {
        "id": "k2",
        "user": "ann",
        "device": "npu",
        "nodes": 1,
        "created_at": 5.0,
        "started_at": None,
        "finished_at": None,
    },
]


def kept(folder: Path, text: str) -> Path:
    path = folder / "trace"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "name", "cards", "runs_s", "limit_s", "nodes"),
    [
        (SWF, "SWF", 8, 100.0, 600.0, None),
        (json.dumps(PHILLY), "Philly", 4, 60.0, None, 2),
        (HELIOS, "Helios", 8, 60.0, None, None),
        (PAI, "PAI", 4, 60.0, None, None),
        (json.dumps(OWN), "jumar", 4, 60.0, None, 2),
    ],
)
def test_each_format_is_known_by_what_is_in_it(
    tmp_path: Path,
    text: str,
    name: str,
    cards: int,
    runs_s: float,
    limit_s: float | None,
    nodes: int | None,
) -> None:
    trace = read_trace(kept(tmp_path, text))
    assert (trace.format, trace.left_out + trace.unended, len(trace.jobs)) == (name, 1, 1)
    job = trace.jobs[0]
    assert (job.cards, job.runs_s, job.limit_s, job.nodes) == (cards, runs_s, limit_s, nodes)


def own(**facts: object) -> dict[str, object]:
    return {**OWN[0], **facts}


def test_jumars_own_list_tells_cards_ends_and_limits_apart(tmp_path: Path) -> None:
    jobs = [
        own(time_limit_s=90, attempt=1),
        own(id="two attempts", time_limit_s=40, attempt=2),
        own(id="on the processor", device="cpu:1"),
        own(id="still running", finished_at=None),
        own(id="waiting", started_at=None, finished_at=None),
        own(id="stopped in the line", started_at=None),
    ]
    trace = read_trace(kept(tmp_path, json.dumps(jobs)))
    assert [(job.job_id, job.limit_s) for job in trace.jobs] == [
        ("k1", 90.0),
        ("two attempts", 80.0),
    ]
    assert (trace.left_out, trace.unended) == (2, 2)


def test_the_size_of_the_machine_is_what_its_trace_says(tmp_path: Path) -> None:
    assert read_trace(kept(tmp_path, SWF)).cards == 64
    eight = str(kept(tmp_path, SWF.replace("MaxProcs: 64", "MaxProcs: 8")))
    assert "on 8 cards" in called("--trace", eight).stdout
    assert "on 16 cards" in called("--trace", eight, "--cards", "16").stdout


def at_once(*waits_and_ends: tuple[float, float]) -> list[Told]:
    job = TraceJob(job_id="a", user="ann", submitted=100.0, cards=1, runs_s=60.0)
    return [
        Told(job, waited_s=wait, held=[(100.0 + wait, 100.0 + end)]) for wait, end in waits_and_ends
    ]


def test_the_median_of_an_even_number_is_between_the_two() -> None:
    told = at_once((0, 60), (0, 60), (50, 110), (70, 130))
    assert measure("jumar", told, cards=4, took_s=0.0).median_wait_s == 25.0


def test_jobs_that_come_at_once_use_the_cards_until_the_last_ends() -> None:
    told = at_once((0, 60), (0, 60), (60, 120))
    found = measure("jumar", told, cards=2, took_s=0.0)
    assert found.utilisation == pytest.approx(180 / 240)
    assert found.busy[0] == 1.0
    assert found.busy[-1] == 0.5


@pytest.mark.parametrize(
    ("days", "marks"),
    [
        (7.0, ["0 d", "1 d", "7 d"]),
        (0.4, ["0 h", "1 h", "9 h"]),
        (0.0, ["0 h"]),
        (70.0, ["0 d", "7 d", "70 d"]),
    ],
)
def test_the_axes_of_the_plot_have_marks_and_units(days: float, marks: list[str]) -> None:
    drawn = plot([measure("jumar", at_once((0, 60), (60, 120)), cards=1, took_s=0.0)], "week", days)
    texts = [
        text.text for text in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert set(marks) <= set(texts)
    assert "1 cards" in texts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "[]",
        "[1, 2]",
        '{"a": 1}',
        "[" * 100_000,
        '[{"attempts": 3}]',
        '[{"created_at": 1, "device": "npu:x", "id": 1, "user": "u", "started_at": 1, "finished_at": 2}]',
        "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 x\n",
        SWF + "1 2 3\n",
        "1 10 5 inf 4 -1 -1 8 600 -1 1 7 1 1 1 1 -1 -1\n",
        "1 10 5 nan 4 -1 -1 nan 600 -1 1 7 1 1 1 1 -1 -1\n",
        HELIOS.replace(",8,", ",eight,"),
        PAI + "a,b\n",
    ],
)
def test_a_file_that_is_no_trace_is_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput, match="trace"):
        read_trace(kept(tmp_path, text))


def test_bad_options_exit_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = [
        ["--trace", str(tmp_path / "none")],
        ["--trace", str(tmp_path)],
        ["--segment", "soon"],
        ["--jobs", "20", "--plot", str(tmp_path / "no" / "x.svg")],
        ["--trace", str(kept(tmp_path, SWF)), "--cards", "1"],
    ]
    for options in bad:
        assert run(["simulate", *options]) == 2, options
        assert "Traceback" not in capsys.readouterr().err


def called(*options: str) -> Result:
    return CliRunner().invoke(command, options, catch_exceptions=False)


def test_a_week_is_compared_and_drawn(tmp_path: Path) -> None:
    svg = tmp_path / "week.svg"
    options = ("--jobs", "300", "--cards", "16", "--preemptible", "0.4", "--segment", "2h")
    answer = json.loads(called(*options, "--plot", str(svg), "--json").stdout)
    assert [each["policy"] for each in answer] == ["jumar", "easy", "fcfs"]
    assert all(each["ended"] == each["jobs"] for each in answer)
    assert not any(isinstance(value, list) for each in answer for value in each.values())
    assert answer[0]["preemptions"] > 0 == answer[1]["preemptions"]
    lines = ElementTree.parse(svg).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 * len(answer)
    assert "jumar" in called("--jobs", "100", "--policy", "jumar").stdout


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    jobs = [
        TraceJob(
            job_id=f"j{number}",
            user=draw(st.sampled_from(["ann", "bob"])),
            submitted=float(draw(st.integers(0, 3000))),
            cards=draw(st.sampled_from([1, 2, 4, 8])),
            runs_s=float(draw(st.integers(1, 4000))),
            limit_s=draw(st.sampled_from([4000.0, 9000.0])),
            preemptible=draw(st.booleans()),
        )
        for number in range(draw(st.integers(1, 14)))
    ]
    return settled(jobs, cards_per_node=4, total_cards=8, seed=1)


def held_at_once(told: list[Told]) -> int:
    changes = sorted(
        change
        for each in told
        for since, until in each.held
        for change in ((since, each.job.cards), (until, -each.job.cards))
    )
    most = now = 0
    for _, cards in sorted(changes):
        now += cards
        most = max(most, now)
    return most


@settings(max_examples=60, deadline=None)
@given(workloads(), st.sampled_from(sorted(POLICIES)), st.sampled_from([None, 1000.0]))
def test_every_job_does_its_whole_work_whatever_interrupts_it(
    load: Workload, name: str, segment_s: float | None
) -> None:
    told = run_policy(
        load, POLICIES[name], nodes=2, cards_per_node=4, segment_s=segment_s, save_every_s=300.0
    )
    assert held_at_once(told) <= 8
    for each in told:
        worked = sum(until - since for since, until in each.held)
        assert worked == pytest.approx(each.job.runs_s + each.repeated_s, abs=1.0)
        assert each.preempted == 0 or (each.job.preemptible and name == "jumar")
        waited = each.ended - each.job.submitted - worked
        assert waited == pytest.approx(each.waited_s, abs=1e-3)
        if segment_s is not None:
            assert all(until - since <= segment_s + 1e-6 for since, until in each.held)


def test_an_urgent_job_starts_soon_and_its_victim_after_it() -> None:
    spot = [
        TraceJob(f"s{n}", "bob", float(n), 4, 5000.0, 6000.0, preemptible=True) for n in range(6)
    ]
    urgent = TraceJob("urgent", "ann", 1000.0, 4, 100.0, 200.0)
    load = settled([*spot, urgent], cards_per_node=4, total_cards=8, seed=1)
    told = {
        each.job.job_id: each
        for each in run_policy(load, POLICIES["jumar"], nodes=2, cards_per_node=4)
    }
    assert told["urgent"].waited_s <= 12.0
    victims = [each for each in told.values() if each.preempted]
    assert len(victims) == 1
    assert victims[0].held[1][0] >= told["urgent"].held[0][0]


def test_cards_are_dealt_out_evenly_and_what_is_not_needed_goes_on() -> None:
    assert dealt_out({"a": 1, "b": 10, "c": 10}, 9) == {"a": 1, "b": 4, "c": 4}
    assert dealt_out({}, 9) == {}
