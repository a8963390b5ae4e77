import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.spec.devices import CardRef, DeviceKind, DeviceRequest
from jumar.spec.duration import format_duration, parse_duration
from jumar.spec.records import AttemptRecord, JobPage, JobRecord, JobSummary, Waiting
from jumar.spec.states import AttemptState, JobState
from jumar.spec.wire import decode, encode


@given(st.integers(min_value=1, max_value=10**8))
def test_a_duration_reads_back_the_same(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1h30m", 5400), ("2d", 172800), (" 5M ", 300)]
)
def test_durations_are_read_as_people_write_them(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1x", "-5s", "1.5h", "30m1h", "１２"])
def test_other_text_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@given(st.sampled_from(list(DeviceKind)), st.integers(min_value=1, max_value=1024))
def test_a_device_reads_back_the_same(kind: DeviceKind, count: int) -> None:
    request = DeviceRequest(kind, count)
    assert DeviceRequest.parse(str(request)) == request


@pytest.mark.parametrize("text", ["", "npu:", "npu:x", "npu:0", "npu:-1", "npu:2000", "2", "n pu"])
def test_other_text_is_no_device(text: str) -> None:
    with pytest.raises(ValueError, match=r"device|count"):
        DeviceRequest.parse(text)


def test_records_survive_the_wire_and_unknown_fields_are_left_out() -> None:
    record = JobRecord(
        id="abc",
        name="数字",
        user="ann",
        state=JobState.TIMED_OUT,
        device="npu:2",
        nodes=1,
        priority=100,
        created_at=1.5,
        spec={"name": "数字", "environment": {}},
        attempts=(
            AttemptRecord(
                number=1,
                state=AttemptState.LOST,
                cards=(CardRef("local", 0), CardRef("local", 3)),
                created_at=2.0,
            ),
        ),
        waiting=Waiting(text="soon", place_in_line=1, needs=2, free=1, total=8),
        directory="/jobs/abc",
        notes=("no image",),
    )
    data = encode(record)
    data["field_of_a_newer_server"] = 1
    assert decode(JobRecord, data) == record
    summary = decode(JobSummary, data)
    page = JobPage(jobs=(summary,), total=1, counts={"lost": 1})
    assert decode(JobPage, encode(page)) == page
