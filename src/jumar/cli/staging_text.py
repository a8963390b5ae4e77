"""How far a job's data has been carried, in words."""

from jumar.cli.output import ago, local
from jumar.spec.records import Carried, JobRecord
from jumar.spec.staging import carried_values, data_rows

_AWAY = "the store cannot be reached ({error})"
_KEPT = "they are kept in {directory} and sent again"
_AGAIN = f"{_KEPT} every few minutes, or now with: jumar jobs upload {{id}}"
_LEFT = f"not yet uploaded; {_AGAIN}"
_LEFT_WHY = f"not yet uploaded: {{error}}; {_AGAIN}"
_PROGRESS = "{files} of {total_files} files, {bytes} of {total_bytes}, {rate}/s"
_WORDS = {
    "data.brought": "inputs",
    "data.results": "results",
    "data.progress": _PROGRESS,
    "data.all": "{files} of {total_files} files, {bytes}",
    "data.all_cached": "{files} of {total_files} files, {bytes} ({cached} from the cache)",
    "data.sent": "sent",
    "data.sent_but": "{error}; all others were sent",
    "data.last_sent": "last sent",
    "data.not_sent": "not sent yet",
    "data.not_sent_now": f"not sent: {{error}}; {_KEPT} every few minutes",
    "data.asking": "sending; asking the store what it already has",
    "data.away": f"{_AWAY}; trying again",
    "data.away_kept": f"{_AWAY}; {_KEPT}",
}


def staging_facts(job: JobRecord) -> list[tuple[str, str]]:
    """A line for what was brought and one for what is sent, where there is any."""
    found: dict[str, str] = {}
    for row in data_rows(job):
        words = local(_WORDS[row.words]).format(**row.values, directory=job.directory)
        when = f" {ago(row.at)}" if row.at is not None else ""
        found[_WORDS[row.label]] = words + when
    if job.not_uploaded:
        error = job.staging.error if job.staging else None
        words = local(_LEFT_WHY if error else _LEFT)
        found["results"] = words.format(error=error, directory=job.directory, id=job.id)
    return list(found.items())


def away_text(error: str) -> str:
    """That the store cannot be reached."""
    return local(_AWAY).format(error=error)


def progress_text(part: Carried) -> str:
    """`312 of 5,000 files, 1.2 GB of 20.0 GB, 85.0 MB/s`."""
    return local(_PROGRESS).format(**carried_values(part))
