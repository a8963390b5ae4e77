"""`/metrics` in Prometheus' text format: cards, running jobs, the queue, what people used this week.

Prometheus comes with a token of a member: `authorization: {credentials: …}` in its configuration."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.server.edge.auth import Member
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.states import JobState

PATH = "/metrics"
router = APIRouter()
_WEEK_DAYS = 7
Sample = tuple[dict[str, str], float | None]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its samples; those without a value are left out."""

    name: str
    help: str
    samples: Iterable[Sample]

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} gauge"
        for labels, value in self.samples:
            if value is not None:
                told = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
                yield f"{self.name}{{{told}}} {value:g}" if told else f"{self.name} {value:g}"


@router.get(PATH)
async def metrics(site: SiteOf, _user: Member) -> Response:
    """Everything at this moment."""
    text = await run_in_threadpool(_text, site)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _text(site: Site) -> str:
    families = (*_queue(site), *_cards(site), *_jobs(site), _used(site))
    return "\n".join(line for family in families for line in family.lines()) + "\n"


def _queue(site: Site) -> tuple[Family, ...]:
    counts = site.service.page(limit=1).counts
    samples = [({"state": str(state)}, float(counts.get(state, 0))) for state in JobState]
    return (Family("jumar_jobs", "Jobs in each state.", samples),)


def _cards(site: Site) -> Iterator[Family]:
    held = {(use.kind, use.node, use.id): use for use in site.service.cards() if use.kind != "cpu"}
    labels = {key: {"kind": key[0], "node": key[1], "card": str(key[2])} for key in held}
    yield Family(
        "jumar_card_held",
        "1 while a job holds the card.",
        [
            (
                labels[key] | {"job": use.job_id or "", "user": use.user or ""},
                float(use.job_id is not None),
            )
            for key, use in held.items()
        ],
    )
    seen = [
        (labels.get((card.kind, card.node, card.id)), card) for card in site.service.sampler.cards
    ]
    known = [(marks, card) for marks, card in seen if marks is not None]
    yield Family(
        "jumar_card_utilisation_percent",
        "How busy the card is.",
        [(marks, card.utilisation_pct) for marks, card in known],
    )
    for name, help_text, pick in (
        ("used", "Memory in use on the card.", "memory_used_mb"),
        ("total", "Memory of the card.", "memory_total_mb"),
    ):
        values = [(marks, getattr(card, pick)) for marks, card in known]
        samples = [(marks, None if mb is None else mb * 1e6) for marks, mb in values]
        yield Family(f"jumar_card_memory_{name}_bytes", help_text, samples)
    yield Family(
        "jumar_card_temperature_celsius",
        "Temperature of the card.",
        [(marks, card.temperature_c) for marks, card in known],
    )
    yield Family(
        "jumar_card_power_watts",
        "Power that the card takes.",
        [(marks, card.power_w) for marks, card in known],
    )


def _jobs(site: Site) -> tuple[Family, ...]:
    names = {
        use.job_id: {"job": use.job_id, "name": use.job_name or "", "user": use.user or ""}
        for use in site.service.cards()
        if use.job_id is not None
    }
    uses = [(names[job], use) for job, use in site.service.sampler.jobs.items() if job in names]
    return (
        Family(
            "jumar_job_cpu_cores",
            "Cores that the job keeps busy.",
            [(marks, use.cpu_cores) for marks, use in uses],
        ),
        Family(
            "jumar_job_memory_bytes",
            "Memory that the job takes.",
            [(marks, float(use.memory_bytes)) for marks, use in uses],
        ),
    )


def _used(site: Site) -> Family:
    lines = site.service.used(_WEEK_DAYS)
    return Family(
        "jumar_used_card_seconds_week",
        "Card-seconds that the user has used today and in the six days before.",
        [({"user": line.user, "kind": line.kind}, line.card_s) for line in lines],
    )


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
