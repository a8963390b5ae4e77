"""What somebody means who names an array."""

from collections.abc import Sequence

from jumar.client import Client
from jumar.spec.records import JobSummary


def jobs_of(client: Client, word: str) -> Sequence[JobSummary]:
    """The job that `word` names, or all jobs of the array."""
    found = client.get(word)
    if found.array_id is None or word.rpartition("/")[2] not in (found.array_id, found.name):
        return [found]
    theirs = client.jobs(user=found.user, text=found.name)
    of_array = [one for one in theirs if one.array_id == found.array_id]
    return sorted(of_array, key=lambda one: one.array_index or 0)
