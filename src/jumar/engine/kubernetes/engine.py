"""`KubernetesEngine`: each attempt is one job of a cluster, over a job directory that its pods share."""

import logging
import os
import secrets
import shutil
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from jumar.engine.base import Attempt, Observation
from jumar.engine.files import JobFiles
from jumar.engine.kubernetes.asking import (
    EVENTS,
    JOBS,
    PODS,
    SERVICES,
    VOLCANO_JOBS,
    Api,
    Json,
    Kind,
    Taken,
    part,
)
from jumar.engine.kubernetes.manifests import JOB, SERVER, Manifest, Origin, manifests, name_of
from jumar.engine.kubernetes.observing import Observer, is_submitted, submitted_file
from jumar.engine.kubernetes.options import ClusterOptions
from jumar.engine.kubernetes.program import Program
from jumar.engine.kubernetes.watching import Key, Mirror
from jumar.engine.local.planning import make_plan
from jumar.engine.shared.files import Roots, Stages, write_files
from jumar.engine.shared.jobfiles import SharedFiles
from jumar.errors import EngineFailed, SubmitRefused
from jumar.launch.jobdir.files import JobDir, is_plain
from jumar.launch.jobdir.job import ask_to_stop, read_stop
from jumar.launch.jobdir.news import send_hint
from jumar.launch.jobdir.safefile import Unusable, create_json, read_object, write_json
from jumar.spec.job import JobSpec
from jumar.spec.records import Plan
from jumar.spec.states import AttemptState
from jumar.store.users import UserStores

logger = logging.getLogger(__name__)
_PROGRAM, _MEMORY = "program", "kubernetes.json"
_WARNINGS_S = 30.0
_SHORT_LOG = 2000


class KubernetesEngine:
    """Implements `engine.base.Engine` and `HasQueue`; thread-safe for different attempts."""

    name = "kubernetes"
    queue_name = "Kubernetes"

    def __init__(
        self, home: Path, options: ClusterOptions, *, stages: Stages | None = None
    ) -> None:
        self._home, self._options = home, options
        self._api = Api(options)
        self._stages = stages or Stages(UserStores(home))
        self._roots = Roots()
        self.files: JobFiles = SharedFiles(home / "jobs", self._roots)
        self._program = Program(home / _PROGRAM)
        self._lock = threading.Lock()
        self._watch: _Watch | None = None
        self._deleted: set[Key] = set()
        """What was asked to be deleted since this engine was made."""

    def prepare(self) -> None:
        """Have the client loaded, which takes a while, and the watches begun; the cluster may be away."""
        threading.Thread(target=self._begin, name="kubernetes", daemon=True).start()

    def _begin(self) -> None:
        try:
            self._watching(self._settled())
        except EngineFailed as error:
            logger.warning("%s", error.message)

    def plan(self, spec: JobSpec, *, user: str, archive: Path | None = None) -> Plan:
        """The objects of the job. Works with no cluster at hand too, then unchecked."""
        _refuse(spec)
        directory = self._home / "jobs" / "<id>"
        made = make_plan(spec, archive=archive, cards=None, directory=directory, can_look=False)
        notes = list(made.notes)
        options = self._options
        try:
            options = self._settled()
        except EngineFailed as error:
            notes.append(f"not checked with the cluster: {error.message}")
        if spec.endpoints:
            notes.append("endpoints: not opened on Kubernetes yet")
        origin = Origin(self._home, f"{_PROGRAM}/jumar", "id", os.getuid(), os.getgid())
        each = f"{spec.nodes} pod{'s' * (spec.nodes > 1)}"
        return Plan(
            engine=self.name,
            summary=f"a job of Kubernetes with {each}, {spec.device} each",
            details={"objects": manifests(spec, "id", 1, options, origin)},
            notes=tuple(notes),
        )

    def start(self, attempt: Attempt) -> None:
        """Write the files and create the objects, unless they exist."""
        directory = self._roots.of(attempt)
        if is_submitted(directory) or os.path.lexists(directory.said):
            return
        options = self._settled()
        watch = self._watching(options)
        self._write(attempt, directory)
        job, *rest = manifests(
            attempt.spec, attempt.job_id, attempt.number, options, self._origin()
        )
        made = self._created(watch.kind, job)
        watch.jobs.shelf.add(made)
        for body in rest:
            self._own(body, made)
        try:
            write_json(submitted_file(directory), {"uid": made["metadata"]["uid"]})
        except OSError as error:
            raise EngineFailed(f"cannot write {submitted_file(directory)}: {error}") from error

    def _created(self, kind: Kind, body: Manifest) -> Json:
        """The object, made now or by a call whose answer was lost."""
        try:
            return self._api.create(kind, body)
        except Taken:
            name = str(body["metadata"]["name"])
            found = self._api.get(kind, name)
            if found is None:
                raise EngineFailed(f"{name} was there a moment ago; trying again") from None
            labels = part(found["metadata"], "labels")
            wanted: Json = body["metadata"]["labels"]
            if any(labels.get(label) != wanted[label] for label in (JOB, SERVER)):
                raise SubmitRefused(
                    f"{name} exists in the namespace {self._api.namespace} and is not ours"
                ) from None
            return found

    def _own(self, body: Manifest, owner: Json) -> None:
        """An object that goes with the job's own."""
        meta: Json = owner["metadata"]
        reference = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": meta["name"],
            "uid": meta["uid"],
        }
        whole = {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}}
        try:
            self._api.create(SERVICES, whole)
        except Taken:
            return

    def _write(self, attempt: Attempt, directory: JobDir) -> None:
        spec = attempt.spec
        write_files(
            directory,
            attempt,
            # Kept between attempts; images differ, so jobs do not share it.
            env_cache=attempt.directory / "envs",
            notify=self._home / "notify.sock",
            # Only the keys, for a script that reaches stores itself.
            staging=self._stages.prepare(attempt, directory),
        )
        request = read_object(directory.request)
        cards = list(range(spec.device.count))
        request.update(
            # The clock starts with the first pod.
            deadline=None,
            deadline_monotonic=None,
            time_limit_s=spec.time_limit,
            notify=None,
            cards=cards,
            archive=self._archive(attempt, directory),
            nodes=[
                {"name": str(node), "address": "", "cards": cards} for node in range(spec.nodes)
            ],
        )
        write_json(directory.request, request)

    def _archive(self, attempt: Attempt, directory: JobDir) -> str | None:
        """The code, where pods can see it."""
        if attempt.archive is None:
            return None
        place = os.path.join(directory.control, "code.tar")
        try:
            if not os.path.exists(place):
                try:
                    os.link(attempt.archive, place)
                except OSError:
                    shutil.copyfile(attempt.archive, f"{place}.new")
                    os.rename(f"{place}.new", place)
        except OSError as error:
            raise EngineFailed(f"cannot bring the code of {attempt.job_id}: {error}") from error
        return place

    def _origin(self) -> Origin:
        program = self._program.ready()
        name = str(program.relative_to(self._home))
        return Origin(self._home, name, self._server(), os.getuid(), os.getgid())

    def _server(self) -> str:
        """Tells this server's objects from those of others in the namespace."""
        path, options = str(self._home / _MEMORY), self._settled()
        try:
            if not os.path.exists(path):
                known = {"server": secrets.token_hex(8), "volcano": options.volcano}
                create_json(path, known)
        except OSError as error:
            raise EngineFailed(f"cannot write {path}: {error}") from error
        return str(self._memory().get("server"))

    def _memory(self) -> Json:
        """What this home has to know of its cluster; empty before its first job."""
        path = str(self._home / _MEMORY)
        try:
            return read_object(path)
        except FileNotFoundError:
            return {}
        except (OSError, Unusable) as error:
            raise EngineFailed(f"cannot read {path}: {error}") from error

    def _settled(self) -> ClusterOptions:
        """The options with what the cluster itself says; EngineFailed when it cannot be asked.

        Asked once for a home: attempts that run must be found where they were put, cluster or not."""
        if self._options.volcano is None:
            has = self._memory().get("volcano")
            if not isinstance(has, bool):
                has = self._api.has_volcano()
            self._options = self._options.model_copy(update={"volcano": has})
        return self._options

    def _watching(self, options: ClusterOptions) -> "_Watch":
        with self._lock:
            if self._watch is None:
                kind = VOLCANO_JOBS if options.volcano else JOBS
                self._watch = _Watch(self, kind, f"{SERVER}={self._server()}")
            return self._watch

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """How the attempts stand now."""
        found = list(attempts)
        if not found:
            return []
        try:
            return self._watching(self._settled()).observer.look(found)
        except EngineFailed:
            # Nothing is known, so nothing changes.
            return [
                Observation(job_id=one.job_id, number=one.number, state=AttemptState.STARTING)
                for one in found
            ]

    def stop(self, attempt: Attempt, why: AttemptState) -> None:
        """By file, which the launchers obey, and by the cluster, which ends the pods with their grace."""
        directory = self._roots.of(attempt)
        try:
            os.makedirs(directory.control, exist_ok=True)
            if is_plain(directory):
                ask_to_stop(directory, why.value)
        except OSError as error:
            raise EngineFailed(f"cannot ask job {attempt.job_id} to stop: {error}") from error
        self.clear(attempt)

    def kill(self, attempt: Attempt) -> None:
        """All of its processes at once."""
        directory = self._roots.of(attempt)
        watch = self._watching(self._settled())
        if read_stop(directory) is None:
            watch.observer.killed(attempt)
        pods, _ = watch.pods.shelf.of((attempt.job_id, attempt.number))
        for pod in pods:
            meta: Json = pod["metadata"]
            self._api.delete(PODS, str(meta["name"]), uid=str(meta["uid"]), grace_s=0)
        self.clear(attempt, again=True)

    def clear(self, attempt: Attempt, *, again: bool = False) -> None:
        """Delete what the cluster has of an attempt; asked for once."""
        key, directory = (attempt.job_id, attempt.number), self._roots.of(attempt)
        if key in self._deleted and not again:
            return
        uid = None
        if is_submitted(directory):
            uid = str(read_object(submitted_file(directory)).get("uid") or "") or None
        elif not os.path.exists(directory.request):
            # Nothing was ever created.
            return
        kind = self._watching(self._settled()).kind
        self._api.delete(kind, name_of(*key), uid=uid)
        self._deleted.add(key)

    def cleared(self, attempt: Attempt) -> bool:
        """The same, whether it could be asked for or not."""
        try:
            self.clear(attempt)
        except (EngineFailed, SubmitRefused) as error:
            logger.warning("job %s: %s", attempt.job_id, error.message)
            return False
        return True

    def log_of(self, pod: str) -> str:
        """The last lines of a pod that said nothing in its directory; empty where nobody has them."""
        try:
            return self._api.log(pod)[-_SHORT_LOG:]
        except (EngineFailed, SubmitRefused):
            return ""

    def changed(self, key: Key) -> None:
        """Have the conductor look."""
        send_hint(str(self._home / "notify.sock"), key[0])

    @property
    def api(self) -> Api:
        """The cluster."""
        return self._api

    @property
    def roots(self) -> Roots:
        """Where attempts have their files."""
        return self._roots

    def close(self) -> None:
        """Let go of the watches; jobs go on."""
        with self._lock:
            watch = self._watch
        if watch is not None:
            watch.close()
        self._api.close()


class _Watch:
    """What is looked at all the time, begun with the first job."""

    def __init__(self, engine: KubernetesEngine, kind: Kind, selector: str) -> None:
        self.kind, self._api = kind, engine.api
        self.jobs = Mirror(engine.api, kind, selector, engine.changed)
        self.pods = Mirror(engine.api, PODS, selector, engine.changed)
        self.observer = Observer(
            engine.roots,
            self.jobs,
            self.pods,
            queue_name=engine.queue_name,
            clear=engine.cleared,
            log_of=engine.log_of,
            warnings=self._warnings,
        )
        self._warned: dict[str, str] = {}
        self._asked_at = -_WARNINGS_S
        self.jobs.start()
        self.pods.start()

    def _warnings(self) -> dict[str, str]:
        """The newest of the namespace, by object; one question for all jobs, and not often."""
        now = time.monotonic()
        if now - self._asked_at >= _WARNINGS_S:
            self._asked_at = now
            try:
                listed = self._api.list(EVENTS, fieldSelector="type=Warning")
            except (EngineFailed, SubmitRefused):
                return self._warned
            found = sorted(listed.items, key=lambda one: str(one.get("lastTimestamp") or ""))
            self._warned = {_about(one): _warning(one) for one in found}
        return self._warned

    def close(self) -> None:
        self.jobs.close()
        self.pods.close()


def _about(event: Json) -> str:
    return str(part(event, "involvedObject").get("name") or "")


def _warning(event: Json) -> str:
    message = " ".join(str(event.get("message") or "").split())[:300]
    return f"{event.get('reason') or 'Warning'}, {message}"


def _refuse(spec: JobSpec) -> None:
    """What cannot be done in a pod yet."""
    if spec.stages_data:
        raise SubmitRefused(
            "data in stores is not brought to pods yet",
            hint="mount it with mounts in [kubernetes] of config.toml, and give its path",
        )
