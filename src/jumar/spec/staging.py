"""What there is to say about a job's data: which sentence, with which values. Page and command line
each have their own words for it."""

from dataclasses import dataclass, field

from jumar.spec.amounts import bytes_text
from jumar.spec.records import Carried, JobRecord, StagingRecord


@dataclass(frozen=True, slots=True)
class DataRow:
    """One line: the keys of its label and its sentence, the values in it, and a time after it."""

    label: str
    words: str
    values: dict[str, str] = field(default_factory=dict[str, str])
    at: float | None = None


def data_rows(job: JobRecord) -> list[DataRow]:
    """A row for the inputs and one for the results, where there is something to say."""
    record = job.staging
    if record is None:
        return []
    rows: list[DataRow] = []
    if record.phase == "bringing" and record.error:
        rows.append(DataRow("data.brought", "data.away", {"error": record.error}))
    elif record.inputs is not None and record.inputs.total_files:
        rows.append(_carried("data.brought", record.inputs))
    if record.phase == "sending":
        rows.append(_sending(record))
    elif record.phase == "running" and record.error and not job.state.is_final:
        rows.append(DataRow("data.results", "data.not_sent_now", {"error": record.error}))
    elif record.phase == "done" and record.error:
        row = DataRow("data.results", "data.sent_but", {"error": record.error}, record.sent_at)
        rows.append(row)
    elif record.sent_at is not None:
        words = "data.sent" if record.phase == "done" else "data.last_sent"
        rows.append(DataRow("data.results", words, at=record.sent_at))
    elif record.phase == "running" and not job.state.is_final:
        rows.append(DataRow("data.results", "data.not_sent"))
    return rows


def _sending(record: StagingRecord) -> DataRow:
    if record.error:
        return DataRow("data.results", "data.away_kept", {"error": record.error})
    if record.outputs is None or not record.outputs.total_files:
        return DataRow("data.results", "data.asking")
    return _carried("data.results", record.outputs)


def _carried(label: str, part: Carried) -> DataRow:
    done = part.files >= part.total_files
    words = "data.all" if done else "data.progress"
    if done and part.cached_bytes:
        words = "data.all_cached"
    return DataRow(label, words, carried_values(part))


def carried_values(part: Carried) -> dict[str, str]:
    """The values that sentences about progress are made of."""
    return {
        "files": f"{part.files:,}",
        "total_files": f"{part.total_files:,}",
        "bytes": bytes_text(part.bytes),
        "total_bytes": bytes_text(part.total_bytes),
        "cached": bytes_text(part.cached_bytes),
        "rate": bytes_text(part.bytes_per_s),
    }
