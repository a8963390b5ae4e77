"""Slurm's words as records, and what is made of them: no cluster is needed."""

import os
from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.conftest import make_attempt

from jumar.engine.base import Attempt
from jumar.engine.shared.jobfiles import Roots
from jumar.engine.slurm import script
from jumar.engine.slurm.asking import Gres, Row, Slurm, read_gres, read_rows
from jumar.engine.slurm.engine import SlurmEngine
from jumar.engine.slurm.limits import Limits
from jumar.engine.slurm.observing import Observer, Queue, newest, submitted_file
from jumar.errors import BadInput, EngineFailed, SubmitRefused
from jumar.launch.jobdir.job import Request
from jumar.launch.jobdir.safefile import Unusable, write_json
from jumar.launch.processes.container import Container
from jumar.launch.slurm.again import Terms, Told, next_segment
from jumar.launch.slurm.allocation import (
    Malformed,
    addresses_and_counts,
    given_cards,
    host_names,
    value_of,
)
from jumar.launch.slurm.ended import PUT_BACK, down_nodes, why_ended, why_in_log
from jumar.launch.slurm.node import own_cards, own_container
from jumar.launch.slurm.question import Question
from jumar.spec.document import validate_spec
from jumar.spec.states import AttemptState
from jumar.words.reasons import catalogue, cause_sentence

NOWHERE = Slurm({"PATH": "/nonexistent"})
SHOWN = (
    "JobId=7 JobState=RUNNING PreemptTime=None "
    "Nodes=node[1-2] CPU_IDs=0-3 Mem=100 GRES=npu:2(IDX:0,3),gpu:1(IDX:0) "
    "Nodes=node7 CPU_IDs=0 Mem=100 GRES=npu:ascend910:2(IDX:6-7) "
)
NODES = (
    "NodeName=node1 Gres=npu:8 NodeAddr=10.0.0.1 State=MIXED\n"
    "NodeName=node2 Gres=gpu:a100:2(S:0),npu:ascend910:4(S:0-1) NodeAddr=10.0.0.2\n"
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10,12],m", ["n08", "n09", "n10", "n12", "m"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("n[1-2].lab,x[7]", ["n1.lab", "n2.lab", "x7"]),
    ],
)
def test_host_lists(text: str, names: list[str]) -> None:
    assert host_names(text) == names


@given(st.text(alphabet="nm[]-,0189.x", max_size=24))
def test_a_host_list_that_is_none_is_refused_and_never_endless(text: str) -> None:
    with suppress(Malformed):
        assert len(host_names(text)) < 10**6


def test_cards_addresses_and_times_are_read_from_scontrol() -> None:
    assert given_cards(SHOWN, "npu") == {"node1": (0, 3), "node2": (0, 3), "node7": (6, 7)}
    assert given_cards(SHOWN, "gpu") == {"node1": (0,), "node2": (0,)}
    found = addresses_and_counts(NODES, "npu")
    assert found == {"node1": ("10.0.0.1", 8), "node2": ("10.0.0.2", 4)}
    assert value_of(SHOWN, "PreemptTime") is None
    assert value_of(SHOWN, "JobState") == "RUNNING"


@pytest.mark.parametrize(
    ("files", "places", "count", "cards"),
    [
        # Four of eight cards are on this node: places are counted, not numbers.
        ([4, 5, 6, 7], (0, 1), 4, (4, 5)),
        ([0, 1, 2, 3, 4, 5, 6, 7], (6, 7), 8, (6, 7)),
        # No device files: the places are all there is.
        ([], (2, 3), 8, (2, 3)),
        # Slurm counts otherwise, but the job has the whole node.
        ([8, 9], (0, 1), 16, (8, 9)),
    ],
)
def test_places_become_card_numbers(
    tmp_path: Path, files: list[int], places: tuple[int, ...], count: int, cards: tuple[int, ...]
) -> None:
    for number in files:
        (tmp_path / f"davinci{number}").touch()
    (tmp_path / "davinci_manager").touch()
    request = Request(places, None, None, None, card_count=count)
    assert own_cards(request, "npu", None, str(tmp_path)).cards == cards


def test_never_the_cards_of_somebody_else(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"davinci{number}").touch()
    request = Request((0,), None, None, None, card_count=8)
    with pytest.raises(Unusable, match="cannot be told"):
        own_cards(request, "npu", None, str(tmp_path))
    assert own_cards(request, "gpu", "5,2", str(tmp_path)).cards == (5, 2)


def test_gres_of_sinfo_and_a_card_s_part_of_its_node() -> None:
    text = "192 npu:ascend910:8(S:0-1),gpu:2\n64+ npu:ascend910:8\n8 (null)\n"
    assert read_gres(text) == [Gres("npu:ascend910", 8), Gres("gpu", 96)]
    spec = validate_spec({"name": "a", "command": ["x"], "device": "npu:2"}, source="job")
    assert script.gres_of(spec, read_gres(text)) == Gres("npu:ascend910", 8)
    two = [Gres("npu:a", 8), Gres("npu:b", 4)]
    assert script.gres_of(spec, two) == Gres("npu", 4)


def test_what_sbatch_is_told(tmp_path: Path) -> None:
    own = {"partition": "npu", "account": "lab", "mem_per_device": "32G", "extra": ["--nice=10"]}
    attempt = make_attempt(
        tmp_path, "x", device="npu:4", nodes=2, type="distributed", time_limit=90, slurm=own
    )
    options = script.options(attempt, tmp_path, Gres("npu", 6))
    wanted = {
        "--nodes=2", "--ntasks-per-node=1", "--gres=npu:4", "--cpus-per-task=24", "--mem=128G", "--time=3",
        "--partition=npu", "--account=lab", "--nice=10", "--no-requeue", "--signal=B:USR1@61",
    }  # fmt: skip
    assert wanted <= set(options)


@pytest.mark.parametrize(
    "slurm",
    [
        {"partition": "a b"},
        {"partition": "--wrap=x"},
        {"extra": ["--wrap=id"]},
        {"extra": ["--output=/x"]},
        {"extra": ["x"]},
        {"extra": ["--nice=1\n#SBATCH --x"]},
        {"mem_per_device": "0G"},
        {"unknown": 1},
    ],
)
def test_options_that_would_break_a_job_are_refused(slurm: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        validate_spec({"name": "a", "command": ["x"], "slurm": slurm}, source="job")


def test_jobs_are_known_by_their_comment_and_not_by_their_id() -> None:
    lines = (
        ("12", "RUNNING", "jumar:a1:1:/h"),
        ("13", "RUNNING", "(null)"),
        ("14", "FAILED", "jumar:a1:1:/h"),
        ("15", "CANCELLED", "jumar:b1:2:/h"),
        ("16", "PENDING", "jumar:b1:2:/h"),
        ("17", "RUNNING", "jumar::"),
    )
    text = "".join(_squeue(*line) for line in lines) + "rubbish\n"
    found = newest(read_rows(text))
    assert {key: row.id for key, row in found.items()} == {("a1", 1): "12", ("b1", 2): "16"}


def _squeue(
    job: str, state: str, comment: str, user: str = "ann", node: str = "node1", restarts: int = 0
) -> str:
    """A line as squeue prints it."""
    columns = (job, state, "None", node, "main", "normal", "lab", user, str(restarts), comment)
    widths = (20, 24, 64, 64, 64, 64, 64, 64, 12, 128)
    return (
        "".join(f"{one[:width]:{width}}" for one, width in zip(columns, widths, strict=True)) + "\n"
    )


def test_a_comment_forges_no_row() -> None:
    """Signs between columns, and lines of its own, as anybody can write them."""
    forged = _squeue("77", "COMPLETED", "jumar:a1:1:/h")
    comments = (
        "jumar:a1:1:/h|n|p|q|a|ann|",
        f"x\n{forged}",
        f"x\n77 {forged[20:140]}",
        "x\x0cjumar:a1:1:/h",
    )
    rows = [row for text in comments for row in read_rows(_squeue("5", "FAILED", text, user="ben"))]
    assert {row.user for row in rows} == {"ben"}


class _Answers:
    """In place of squeue."""

    def __init__(self, answers: Iterator[list[Row] | None]) -> None:
        self.answers, self.calls = answers, 0

    def __call__(self) -> list[Row]:
        self.calls += 1
        answer = next(self.answers)
        if answer is None:
            raise EngineFailed("the controller is away")
        return answer


def _looked(tmp_path: Path, answers: list[list[Row] | None]) -> tuple[list[str], Attempt]:
    attempt = make_attempt(tmp_path, "x")
    directory = Roots().of(attempt)
    Path(directory.node_folder).mkdir(parents=True)
    write_json(submitted_file(directory), {"job": "1"})
    observer = Observer(Roots(), Queue(_Answers(iter(answers)), 0.0), "Slurm", NOWHERE)
    return [observer.look([attempt])[0].state.value for _ in answers], attempt


def test_an_answer_that_fails_or_is_empty_loses_no_job(tmp_path: Path) -> None:
    """It was submitted a moment ago, or its batch step shows life."""
    states, _ = _looked(tmp_path, [None, [], [], [], None])
    assert states == ["starting"] * 5


@pytest.mark.parametrize(
    ("number", "node", "restarts", "state"),
    [
        (1, "", 0, AttemptState.STOPPED),
        (1, "node1", 0, AttemptState.LOST),
        # Its node did not answer, so Slurm put it back; then the node did, found nothing to start and cancelled it.
        (1, "", 1, AttemptState.LOST),
        # One job of Slurm for all attempts is put back for other reasons too.
        (0, "", 1, AttemptState.STOPPED),
    ],
)
def test_who_cancels_a_job_that_has_not_begun(
    tmp_path: Path, number: int, node: str, restarts: int, state: AttemptState
) -> None:
    attempt = make_attempt(tmp_path, "x")
    Path(Roots().of(attempt).node_folder).mkdir(parents=True)
    comment = f"jumar:{attempt.job_id}:{number}:/h"
    rows = read_rows(_squeue("1", "CANCELLED", comment, node=node, restarts=restarts))
    observer = Observer(Roots(), Queue(_Answers(iter([rows])), 0.0), "Slurm", NOWHERE)
    assert observer.look([attempt])[0].state is state


def test_three_hundred_jobs_are_one_question(tmp_path: Path) -> None:
    attempts = [make_attempt(tmp_path, "x") for _ in range(300)]
    rows = [Row(str(n), "PENDING", "Priority", f"jumar:{a.job_id}:1:/h", "") for n, a in enumerate(attempts)]  # fmt: skip
    asked = _Answers(iter([rows, None]))
    observer = Observer(Roots(), Queue(asked, 3600.0), "Slurm", NOWHERE)
    for _ in range(3):
        seen = observer.look(attempts)
        assert {one.state for one in seen} == {AttemptState.PENDING}
    assert asked.calls == 1


@pytest.mark.parametrize(
    ("shown", "restarts", "why"),
    [
        ("JobState=RUNNING Reason=None PreemptTime=None", 0, None),
        ("JobState=COMPLETING Reason=None PreemptTime=None", 0, "stopped"),
        ("JobState=CANCELLED Reason=None", 0, "stopped"),
        # COMPLETING hides the state: the reason tells.
        ("JobState=COMPLETING Reason=NodeDown", 0, "node-lost"),
        ("JobState=NODE_FAIL Reason=None", 0, "node-lost"),
        ("JobState=COMPLETING Reason=TimeLimit", 0, "timed-out"),
        ("JobState=COMPLETING Reason=None PreemptTime=2026-11-16T12:00:00", 0, "preempted"),
        ("JobState=PENDING Reason=BeginTime Restarts=1", 0, PUT_BACK),
        ("JobState=COMPLETING Reason=None Restarts=1", 0, PUT_BACK),
        ("JobState=RUNNING Reason=None Restarts=1", 1, None),
    ],
)
def test_why_slurm_ends_a_job(shown: str, restarts: int, why: str | None) -> None:
    assert why_ended(f"JobId=7 {shown} Requeue=1", restarts) == why


@pytest.mark.parametrize(
    ("note", "why"),
    [
        (" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "node-lost"),
        (" DUE TO JOB REQUEUE", "preempted"),
        (" DUE TO PREEMPTION", "preempted"),
        (" DUE TO TIME LIMIT", "timed-out"),
        ("", None),
        (" DUE TO WHIM", None),
    ],
)
def test_why_slurm_ends_a_job_by_its_log(note: str, why: str | None) -> None:
    line = "slurmstepd: error: *** JOB {} ON n1 CANCELLED AT 2026-11-16T13:52:57{} ***\n"
    others = line.format(6, " DUE TO PREEMPTION") + line.format(77, " DUE TO TIME LIMIT")
    assert why_in_log(f"{others}{line.format(7, note)}", "7") == why


BUSY = """\
#!/bin/sh
echo >> {asked}
[ $(wc -l < {asked}) -ge {answers_at} ] && echo "JobId=$4" && exit
echo "slurm_load_jobs error: Socket timed out on send/recv operation" >&2
exit 1
"""


def test_a_controller_that_is_busy_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that had its nodes was lost by one question that was not answered within Slurm's 10 s."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program, asked = tmp_path / "scontrol", tmp_path / "asked"
    program.write_text(BUSY.format(asked=asked, answers_at=3))
    program.chmod(0o755)
    beats: list[int] = []
    answer = Question("show", "job", "-o", "7").answer_at_last(lambda: beats.append(1))
    assert (answer, len(beats)) == ("JobId=7\n", 2)
    program.write_text(BUSY.format(asked=asked, answers_at=99))
    with pytest.raises(Unusable, match="Socket timed out"):
        Question("show", "job", "-o", "7").answer_at_last(lambda: beats.append(1), busy_s=0.0)


def test_nodes_that_slurm_has_lost() -> None:
    text = "NodeName=a State=IDLE\nNodeName=b State=DOWN*+DRAIN\nNodeName=c State=MIXED\n"
    assert down_nodes(text) == ["b"]


FORGETFUL = """\
#!/bin/sh
case "$*" in
*jumar-{job}*) echo "41|COMPLETED|node1|jumar-{job}"; echo "1|CANCELLED by 7|None assigned|jumar-{job}" ;;
esac
"""


def test_a_job_that_squeue_has_forgotten_is_looked_up_in_the_accounts(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path, "x")
    directory = Roots().of(attempt)
    Path(directory.node_folder).mkdir(parents=True)
    write_json(submitted_file(directory), {"job": "1"})
    os.utime(submitted_file(directory), (1.0, 1.0))
    (tmp_path / "sacct").write_text(FORGETFUL.format(job=attempt.job_id))
    (tmp_path / "sacct").chmod(0o755)
    slurm = Slurm({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    nothing: list[list[Row] | None] = [[], []]
    observer = Observer(Roots(), Queue(_Answers(iter(nothing)), 0.0), "Slurm", slurm)
    states = [observer.look([attempt])[0].state for _ in range(2)]
    assert states == [AttemptState.STARTING, AttemptState.STOPPED]


ACCOUNTS = """\
#!/bin/sh
[ "${0##*/}" = scontrol ] && echo "PartitionName=npu MaxNodes=2 MaxTime=1-00:00:00"
[ "$5" = qos ] && printf 'normal||||||||\\nlab|cpu=64,gres/npu=8|4|||2-00:00:00||\\n'
[ "$5" = association ] && printf 'lab|gres/npu:ascend910=16|||node=4|\\n'
exit 0
"""


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("QOSMaxGRESPerUser", "your limit of 8 cards on npu is used up"),
        ("QOSMaxCpuPerUserLimit", "your limit of 64 cores on npu is used up"),
        ("QOSMaxJobsPerUserLimit", "you run as many jobs as this QOS allows: 4"),
        ("AssocGrpGRES", "the 16 cards of your account are used up"),
        ("PartitionNodeLimit", "the partition npu allows 2 nodes, and it asks for more"),
        # No number is known.
        ("QOSGrpGRES", "the cards of this QOS are used up"),
        ("Priority", "other jobs come first"),
    ],
)
def test_the_number_behind_a_reason(tmp_path: Path, reason: str, said: str) -> None:
    for name in ("scontrol", "sacctmgr"):
        (tmp_path / name).write_text(ACCOUNTS)
        (tmp_path / name).chmod(0o755)
    limits = Limits(Slurm({"PATH": f"{tmp_path}:/usr/bin:/bin"}))
    row = Row("1", "PENDING", reason, "", "", "npu", "lab", "lab")
    values = {"engine": "Slurm", "error": reason, **limits.values(row)}
    assert said in str(cause_sentence("pending", values, "en"))
    assert cause_sentence("pending", values, "zh") != cause_sentence("pending", values, "en")


def test_every_reason_with_a_number_has_words_in_both_languages() -> None:
    table = (files("jumar.engine.slurm") / "limits.tsv").read_text().splitlines()[1:]
    reasons = [row.partition("\t")[0] for row in table]
    for language in ("en", "zh"):
        known = catalogue(language)["pending"]
        assert {f"{reason}+limit" for reason in reasons} == {
            name for name in known if name.endswith("+limit")
        }


def test_pending_reasons_are_said_in_words() -> None:
    values = {"engine": "Slurm", "error": "QOSMaxGRESPerUser"}
    said = [cause_sentence("pending", values, language) for language in ("en", "zh")]
    assert said == [
        "waiting in the queue of Slurm: your limit of cards is used up",
        "正在 Slurm 的队列中等待：您可用的卡已用完",
    ]
    odd = cause_sentence("pending", {**values, "error": "NewReason"}, "en")
    assert odd == "waiting in the queue of Slurm: NewReason"


TIMED = Told("timed-out", advanced=True)
LOST = Told("lost", cause="node-lost")


@pytest.mark.parametrize(
    ("terms", "ended", "segment"),
    [
        (Terms(), [Told("succeeded")], None),
        (Terms(retries=3), [Told("stopped")], None),
        (Terms(), [Told("preempted", 2)], 2),
        (Terms(), [TIMED], None),
        (Terms(segments=2), [TIMED], 2),
        (Terms(segments=2), [TIMED, TIMED._replace(segment=2)], None),
        (Terms(segments="auto"), [TIMED._replace(segment=99)], 100),
        (Terms(segments="auto"), [TIMED._replace(advanced=False)] * 2, None),
        (Terms(), [Told("failed", cause="exit-code")], None),
        (Terms(retries=1), [Told("failed", cause="exit-code")], 1),
        (Terms(retries=1), [Told("failed", cause="exit-code")] * 2, None),
        (Terms(fault_retries=2), [LOST] * 2, 1),
        (Terms(fault_retries=2), [LOST] * 3, None),
        (Terms(fault_retries=1), [LOST, LOST, TIMED, LOST._replace(advanced=True)], 1),
        (Terms(fault_retries=0), [LOST], None),
    ],
)
def test_whether_another_attempt_is_due(
    terms: Terms, ended: list[Told], segment: int | None
) -> None:
    assert next_segment(terms, ended) == segment


def test_a_plan_needs_no_cluster(tmp_path: Path) -> None:
    engine = SlurmEngine(tmp_path, slurm=Slurm({"PATH": str(tmp_path)}))
    spec = validate_spec(
        {"name": "a", "command": ["true"], "device": "npu:8", "nodes": 2, "type": "distributed"},
        source="job",
    )
    plan = engine.plan(spec, user="ann")
    assert "--gres=npu:8" in plan.details["sbatch"]
    assert any("not checked with the cluster" in note for note in plan.notes)


def test_an_image_is_planned_or_refused_but_never_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    values = {"name": "a", "command": ["true"], "device": "npu:2", "image": "ascend/pytorch:2.1"}
    spec = validate_spec(values, source="job")
    plan = SlurmEngine(tmp_path, slurm=Slurm({"PATH": str(tmp_path)})).plan(spec, user="ann")
    container = plan.details["container"]
    assert (container["program"], container["image"]) == (
        "apptainer",
        "docker://ascend/pytorch:2.1",
    )
    assert any("not been tried" in note for note in plan.notes)
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho '8 npu:8'\n")
    (tmp_path / "sinfo").chmod(0o755)
    near = SlurmEngine(tmp_path, slurm=Slurm({"PATH": str(tmp_path)}))
    with pytest.raises(SubmitRefused, match="has no apptainer") as refusal:
        near.plan(spec, user="ann")
    assert refusal.value.hint
    for field, value in {"image": "--bind=/", "activate": "base"}.items():
        odd = validate_spec({**values, field: value}, source="job")
        with pytest.raises(SubmitRefused):
            near.plan(odd, user="ann")


def test_a_node_uses_its_own_program_for_images_and_shows_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    options = (f"--bind={tmp_path}:/driver:ro", "--bind=/nonexistent:/x:ro", "--nv")
    asked = Request((0,), None, None, None, container=Container("apptainer", "/a.sif", options))
    with pytest.raises(Unusable, match="no apptainer"):
        own_container(asked)
    program = tmp_path / "apptainer"
    program.touch(mode=0o755)
    found = own_container(asked).container
    assert found is not None
    assert (found.program, found.options) == (str(program), (options[0], "--nv"))
