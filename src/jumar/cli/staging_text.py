"""How far a job's data has been carried, in words."""

from jumar.cli.output import ago
from jumar.spec.amounts import bytes_text
from jumar.spec.records import Carried, JobRecord, StagingRecord


def staging_facts(job: JobRecord) -> list[tuple[str, str]]:
    """A line for what was brought and one for what is sent, where there is any."""
    record = job.staging
    if record is None:
        return []
    found: list[tuple[str, str]] = []
    if record.phase == "bringing" and record.error:
        found.append(("inputs", f"{away_text(record.error)}; it is tried again"))
    elif record.inputs is not None and record.inputs.total_files:
        found.append(("brought", _carried(record.inputs)))
    results = _results(job, record)
    if results:
        found.append(("results", results))
    return found


def away_text(error: str) -> str:
    """That a store is waited for."""
    return f"the store cannot be reached ({error})"


def progress_text(part: Carried) -> str:
    """`312 of 5,000 files, 1.2 GB of 20.0 GB, 85.0 MB/s`."""
    return (
        f"{part.files:,} of {part.total_files:,} files, {bytes_text(part.bytes)} of "
        f"{bytes_text(part.total_bytes)}, {bytes_text(part.bytes_per_s)}/s"
    )


def _carried(part: Carried) -> str:
    if part.files < part.total_files:
        return progress_text(part)
    words = f"{part.files:,} file{'' if part.files == 1 else 's'}, {bytes_text(part.bytes)}"
    return (
        f"{words} ({bytes_text(part.cached_bytes)} from the cache)" if part.cached_bytes else words
    )


def _results(job: JobRecord, record: StagingRecord) -> str:
    if job.not_uploaded:
        why = f": {record.error}" if record.error else ""
        return (
            f"not yet uploaded{why}; {_kept(job)} every few minutes, "
            f"or now with: jumar jobs upload {job.id}"
        )
    if record.phase == "sending":
        return _sending(job, record)
    if record.phase == "running" and record.error:
        return f"not sent just now: {record.error}; {_kept(job)} every few minutes"
    if record.sent_at is not None:
        return f"{'sent' if record.phase == 'done' else 'last sent'} {ago(record.sent_at)}"
    return "not sent yet" if record.phase == "running" else ""


def _sending(job: JobRecord, record: StagingRecord) -> str:
    if record.error:
        return f"{away_text(record.error)}; {_kept(job)}"
    if record.outputs is None or not record.outputs.total_files:
        return "sending; asking the store what it has"
    return f"sending {progress_text(record.outputs)}"


def _kept(job: JobRecord) -> str:
    return f"they are kept in {job.directory} and sent again"
