"""What is worth telling: a job is done, has failed, was preempted or is not well; a sweep is ahead."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from jumar.notify.sending import Sender
from jumar.notify.webhooks import Webhook, Webhooks
from jumar.spec.causes import ENDED, Cause
from jumar.spec.devices import CardProcess
from jumar.spec.metrics import Alert
from jumar.spec.records import JobSummary
from jumar.spec.states import AttemptState, JobState
from jumar.words.reasons import catalogue, phrase, reason, state_name

_FAILED = frozenset({JobState.FAILED, JobState.TIMED_OUT, JobState.LOST})


@dataclass(frozen=True, slots=True)
class Notices:
    """Thread-safe; every method is quick."""

    webhooks: Webhooks
    sender: Sender
    admins: Callable[[], set[str]]
    """Who hears of everything that concerns the whole site."""
    url: str
    """Of the pages."""

    def job_news(self, job: JobSummary) -> None:
        """A job's state was written down."""
        event = event_of(job)
        for hook in self.webhooks.of(job.user) if event else ():
            if event in hook.events:
                self.sender.add(hook, self._job_line(job, str(event), hook.language))

    def _job_line(self, job: JobSummary, event: str, language: str) -> str:
        # "Done" is said already.
        why = None if job.cause == Cause.DONE else reason(job, language)
        said = phrase(
            *(language, "notice", event),
            name=job.name,
            id=job.id,
            state=state_name(job.state, language),
        )
        colon = catalogue(language)["colon"]
        return f"{said}{f'{colon}{why}' if why else ''} {self.url}/jobs/{job.id}"

    def alert(self, job: JobSummary, alert: Alert) -> None:
        """Something is wrong with a training."""
        for hook in self.webhooks.of(job.user):
            if "alert" in hook.events:
                what = phrase(hook.language, "alert", alert.kind, name=alert.name, **shown(alert))
                said = phrase(hook.language, "notice", "alert", name=job.name, id=job.id, what=what)
                self.sender.add(hook, f"{said} {self.url}/jobs/{job.id}")

    def sweep_ahead(self, process: CardProcess, card: str, ends_at: float) -> None:
        """A process that uses a card and belongs to no job is ended then."""
        told = {*self.admins(), process.user}
        at = time.strftime("%H:%M", time.localtime(ends_at))
        for hook in self.webhooks.all:
            if hook.user in told and "sweep" in hook.events:
                values = {"pid": process.own_pid, "name": process.name, "user": process.user}
                words = phrase(hook.language, "notice", "sweep", card=card, at=at, **values)
                self.sender.add(hook, words)

    def try_out(self, hook: Webhook) -> str | None:
        """Send a message now: why it did not arrive; None if it did."""
        return self.sender.send_now(hook, phrase(hook.language, "notice", "test", url=self.url))


def shown(alert: Alert) -> dict[str, str]:
    """The values of an alert as they are said."""
    return {
        name: value if isinstance(value, str) else f"{value:.4g}"
        for name, value in alert.values.items()
    }


def event_of(job: JobSummary) -> str | None:
    """What is worth telling of a job as it stands, if anything."""
    if job.state is JobState.SUCCEEDED:
        return "done"
    # A user knows what they stopped themselves.
    if job.state in _FAILED or (job.state is JobState.STOPPED and "by" in job.values):
        return "failed"
    is_back = job.state is JobState.QUEUED and job.values.get(ENDED) == AttemptState.PREEMPTED
    return "preempted" if is_back else None
