"""All places where a server's jobs run: each attempt goes to its own."""

from collections.abc import Callable, Iterable

from jumar.engine.base import Attempt, Engine, HasCards, HasImages, HasQueue, Observation
from jumar.errors import BadInput, EngineFailed
from jumar.jobs.lane import Lane
from jumar.spec.records import ImageRecord
from jumar.spec.states import AttemptState


class Engines:
    """Thread-safe. At most one has cards, which jumar's scheduler hands out."""

    def __init__(self, *engines: Engine) -> None:
        """The first is for jobs that name none."""
        self._by_name = {engine.name: engine for engine in engines}
        self.default = engines[0]
        placing = [engine for engine in engines if isinstance(engine, HasCards)]
        if len(placing) > 1 or len(self._by_name) < len(engines):
            raise ValueError("two engines for the same jobs")
        self.placing: Engine | None = placing[0] if placing else None
        # One that is alone keeps nobody waiting but its own jobs.
        apart = engines if len(engines) > 1 else ()
        self._lanes = {
            engine.name: Lane(engine) for engine in apart if isinstance(engine, HasQueue)
        }

    @property
    def with_queues(self) -> tuple[str, ...]:
        """Those whose own schedulers place jobs."""
        return tuple(name for name, one in self._by_name.items() if one is not self.placing)

    @property
    def names(self) -> tuple[str, ...]:
        """Those that a job may name; the first is the default."""
        return tuple(self._by_name)

    def listen(self, on_news: Callable[[str], None]) -> None:
        """`on_news` hears of jobs that should be looked at."""
        for lane in self._lanes.values():
            lane.on_news = on_news

    def named(self, name: str | None) -> Engine:
        """The one that a job asks for; BadInput where there is none."""
        found = self.default if name is None else self._by_name.get(name)
        if found is None:
            raise BadInput(
                f"this server does not run jobs on {name!r}",
                hint=f"it has: {', '.join(self.names)}; an administrator adds others to JUMAR_ENGINE",
            )
        return found

    def of(self, engine: str) -> Engine:
        """The one of a job that was taken once; EngineFailed where the server has lost it since."""
        found = self._by_name.get(engine)
        if found is None:
            raise EngineFailed(
                f"the server has no engine {engine!r} any more", hint="add it to JUMAR_ENGINE again"
            )
        return found

    def prepare(self) -> None:
        """Before the first job."""
        for engine in self._by_name.values():
            engine.prepare()

    def images(self) -> tuple[ImageRecord, ...]:
        """Those that jobs may name, in any of them."""
        having = [one for one in self._by_name.values() if isinstance(one, HasImages)]
        return tuple(image for one in having for image in one.images())

    def start(self, attempt: Attempt) -> None:
        """As `Engine.start`."""
        self._way(attempt).start(attempt)

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """As `Engine.observe`; nothing of those whose engine the server has lost."""
        parted: dict[str, list[Attempt]] = {}
        for attempt in attempts:
            parted.setdefault(attempt.engine, []).append(attempt)
        return [
            seen
            for name, some in parted.items()
            if name in self._by_name
            for seen in self._way(some[0]).observe(some)
        ]

    def stop(self, attempt: Attempt, why: AttemptState) -> None:
        """As `Engine.stop`."""
        self._way(attempt).stop(attempt, why)

    def kill(self, attempt: Attempt) -> None:
        """As `Engine.kill`."""
        self._way(attempt).kill(attempt)

    def close(self) -> None:
        """Let go of all. Running attempts go on."""
        for lane in self._lanes.values():
            lane.close()
        for engine in self._by_name.values():
            engine.close()

    def _way(self, attempt: Attempt) -> Engine | Lane:
        return self._lanes.get(attempt.engine) or self.of(attempt.engine)
