import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.launch.processes.spawn import Program, spawn
from jumar.launch.ranks.binding import (
    NearCard,
    format_cpus,
    near_cards,
    numa_cpus,
    parse_cpus,
    plan_binding,
)

A2 = [
    NearCard(0, parse_cpus("72-95")),
    NearCard(1, parse_cpus("0-23")),
    NearCard(2, parse_cpus("72-95")),
    NearCard(3, parse_cpus("0-23")),
]


def cpus_of(
    ranks: list[int | None], cards: list[NearCard], allowed: str, generation: str | None = None
) -> list[str | None]:
    plan = plan_binding(
        ranks=ranks, cards=cards, allowed=parse_cpus(allowed), generation=generation
    )
    return [None if rank.cpus is None else format_cpus(rank.cpus) for rank in plan.ranks]


def test_cpus_follow_the_card_and_hidden_cards_keep_their_share():
    allowed = "0-23,72-95"
    assert cpus_of([0, 1], A2, allowed) == ["72-83", "0-11"]
    assert cpus_of([2, 3], A2, allowed) == ["84-95", "12-23"]
    assert cpus_of([3, 0], A2, allowed) == ["12-23", "72-83"]


def test_all_cpus_are_used_the_near_ones_first():
    near = ["144-167", "0-23", "144-167", "0-23", "96-119", "48-71", "96-119", "48-71"]
    cards = [NearCard(card, parse_cpus(cpus)) for card, cpus in enumerate(near)]
    plan = plan_binding(ranks=list(range(8)), cards=cards, allowed=parse_cpus("0-191"))
    bound = [rank.cpus or frozenset() for rank in plan.ranks]
    assert [len(cpus) for cpus in bound] == [24] * 8
    assert frozenset().union(*bound) == parse_cpus("0-191")
    assert format_cpus(bound[1]) == "0-11,24-35"
    assert all(len(cpus & parse_cpus(own)) == 12 for cpus, own in zip(bound, near, strict=True))
    # Second threads of cores that are near no card.
    cards = [NearCard(n, parse_cpus("0-3,8-11")) for n in range(2)]
    assert cpus_of([0, 1], cards, "0-15") == ["0-1,4-5,8-9,12-13", "2-3,6-7,10-11,14-15"]


def test_cards_of_one_numa_node_do_not_share_cores_through_their_second_threads():
    cards = [NearCard(n, parse_cpus("0-7,16-23")) for n in range(2)]
    assert cpus_of([0, 1], cards, "0-7,16-23") == ["0-3,16-19", "4-7,20-23"]
    assert cpus_of([0, 1], cards, "0-2,16-18") == ["0-1,18", "2,16-17"]
    assert cpus_of([0, 1], cards, "0,2,4,6") == ["0,4", "2,6"]
    assert cpus_of([0, 0, 1], cards, "0-7,16-23") == ["0-1,16-17", "2-3,18-19", "4-7,20-23"]


def test_only_allowed_cpus_are_given():
    assert cpus_of([0, 1], A2, "0-7,72-79") == ["72-75", "0-3"]


def test_a_card_whose_cpus_are_not_allowed_is_left_unbound_with_a_warning():
    plan = plan_binding(ranks=[0, 1], cards=A2, allowed=parse_cpus("0-23"))
    assert plan.ranks[0].cpus is None
    assert plan.ranks[1].cpus == parse_cpus("0-11")
    assert "card 0" in plan.warnings[0]
    assert any("not bound" in line for line in plan.lines())


def test_a3_is_sliced_evenly_over_all_cards():
    cards = [NearCard(n) for n in range(4)]
    assert cpus_of([2, 3], cards, "0-39", "A3") == ["20-29", "30-39"]
    assert cpus_of([2], A2, "0-39", "A3") == ["20-29"]


def test_two_ranks_on_one_card_share_its_part():
    assert cpus_of([1, 1], A2, "0-23") == ["0-5", "6-11"]


def test_without_cards_the_ranks_share_evenly():
    assert cpus_of([None, None, None], [], "0-7") == ["0-2", "3-5", "6-7"]
    assert cpus_of([8, 9], A2, "0-3") == ["0-1", "2-3"]


def test_fewer_cpus_than_ranks_binds_nobody():
    plan = plan_binding(ranks=[None] * 3, cards=[], allowed=parse_cpus("0-1"))
    assert [rank.cpus for rank in plan.ranks] == [None] * 3
    assert "2 CPUs for 3 ranks" in plan.warnings[0]


@pytest.mark.parametrize(
    ("wish", "is_its_own"),
    [("1", True), ("2,npu0:0-3", True), ("mode:1", True), ("0", False), ("mode:0,force:1", False)],
)
def test_torch_npus_own_binding_is_left_alone(wish: str, is_its_own: bool):
    plan = plan_binding(
        ranks=[0], cards=A2, allowed=parse_cpus("0-95"), environ={"CPU_AFFINITY_CONF": wish}
    )
    assert (plan.ranks[0].cpus is None) == is_its_own


def test_the_plan_can_be_read():
    plan = plan_binding(ranks=[0], cards=A2, allowed=parse_cpus("0-23,72-95"))
    assert plan.lines() == ["rank 0 on card 0: CPUs 72-83 (near the card, shared with 2)"]
    plan = plan_binding(ranks=[0], cards=A2, allowed=parse_cpus("0-27,72-95"))
    words = "near the card, shared with 2; 26 are near none"
    assert plan.lines() == [f"rank 0 on card 0: CPUs 26,72-83 ({words})"]


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.sets(st.integers(0, 127), min_size=8, max_size=96),
    st.sampled_from([None, "A2", "A3"]),
)
def test_ranks_get_allowed_cpus_and_cards_with_room_do_not_overlap(
    ranks: list[int], allowed: set[int], generation: str | None
):
    plan = plan_binding(ranks=ranks, cards=A2, allowed=frozenset(allowed), generation=generation)
    assert [rank.local_rank for rank in plan.ranks] == list(range(len(ranks)))
    for rank in plan.ranks:
        assert rank.cpus is None or (rank.cpus and rank.cpus <= allowed)
    if generation == "A3" and len(ranks) == len(set(ranks)):
        given_out = [cpu for rank in plan.ranks for cpu in rank.cpus or ()]
        assert len(given_out) == len(set(given_out))


@given(st.sets(st.integers(0, 300)))
def test_cpu_lists_come_back(cpus: set[int]):
    assert parse_cpus(format_cpus(cpus)) == cpus


@pytest.mark.parametrize("text", ["", "x", "3-1", "-", "1,,a"])
def test_odd_cpu_lists_do_no_harm(text: str):
    assert parse_cpus(text) <= {1}


def test_a_process_is_bound_and_a_refusal_is_told(tmp_path: Path):
    one = min(os.sched_getaffinity(0))
    log = tmp_path / "rank0.log"
    show = "import os; print(*os.sched_getaffinity(0))"
    for cpus in ([one], [60_000]):
        argv = [sys.executable, "-c", show]
        pid = spawn(Program(argv, dict(os.environ), str(tmp_path), str(log), cpus))
        os.waitpid(pid, 0)
    bound, refused, goes_on = log.read_text().splitlines()
    assert bound == str(one)
    assert refused.startswith("jumar: cannot bind to cores [60000]")
    assert goes_on == " ".join(map(str, os.sched_getaffinity(0)))


def test_gpus_are_near_the_cpus_of_their_numa_node(tmp_path: Path):
    for node, cpus in enumerate(["0-3", "4-7"]):
        folder = tmp_path / f"sys/devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cpus + "\n")
    for bus, node, kind in [
        ("0000:81:00.0", "1", "0x030200"),
        ("0000:01:00.0", "0", "0x030000"),
        ("0000:01:00.1", "0", "0x040300"),
    ]:
        folder = tmp_path / "sys/bus/pci/devices" / bus
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text(kind + "\n")
        (folder / "numa_node").write_text(node + "\n")
    cards = near_cards("gpu", root=str(tmp_path))
    assert cards == [NearCard(0, parse_cpus("0-3")), NearCard(1, parse_cpus("4-7"))]
    assert numa_cpus(str(tmp_path))[1] == parse_cpus("4-7")


def test_npus_are_near_what_the_tool_says(tmp_path: Path):
    tool = tmp_path / "npu-smi"
    table = "     NPU0  NPU1  CPU Affinity\nNPU0  X   HCCS  8-11\nNPU1  HCCS  X  0-3\n"
    tool.write_text(f"#!{sys.executable}\nprint({table!r})\n")
    tool.chmod(0o755)
    assert near_cards("npu", npu_smi=str(tool)) == [
        NearCard(0, parse_cpus("8-11")),
        NearCard(1, parse_cpus("0-3")),
    ]
    assert near_cards("npu", npu_smi=str(tmp_path / "none")) == []
    assert near_cards("sim") == []
