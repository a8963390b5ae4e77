"""What somebody means who names an array."""

from collections.abc import Sequence

from jumar.cli.output import note
from jumar.client import Client
from jumar.spec.records import JobRecord, JobSummary


def jobs_of(client: Client, word: str) -> Sequence[JobSummary]:
    """The job that `word` names, or all jobs of the array."""
    found = client.get(word)
    if not _is_array(found, word):
        return [found]
    theirs = client.jobs(user=found.user, text=found.name)
    of_array = [one for one in theirs if one.array_id == found.array_id]
    return sorted(of_array, key=lambda one: one.array_index or 0)


def one_of(client: Client, word: str) -> JobRecord:
    """The job that `word` names; of an array the one that the server picks, which is said."""
    found = client.get(word)
    if _is_array(found, word):
        note(
            f"{word} is an array: this is about {word}-{found.array_index} ({found.id}); "
            f"name another one as {word}-INDEX"
        )
    return found


def _is_array(found: JobRecord, word: str) -> bool:
    return found.array_id is not None and word.rpartition("/")[2] in (found.array_id, found.name)
