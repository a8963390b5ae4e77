"""`KubernetesEngine`: each attempt is one job of a cluster, over a job directory that its pods share."""

import logging
import os
import secrets
import shutil
import socket
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from jumar.engine.base import Attempt, Observation
from jumar.engine.files import JobFiles
from jumar.engine.kubernetes import reasons
from jumar.engine.kubernetes.asking import (
    JOBS,
    PODS,
    SERVICES,
    VOLCANO_JOBS,
    Api,
    Json,
)
from jumar.engine.kubernetes.making import create_owned, created
from jumar.engine.kubernetes.manifests import SERVER, Origin, manifests, name_of
from jumar.engine.kubernetes.observing import Observer, is_submitted, submitted_file
from jumar.engine.kubernetes.options import ClusterOptions
from jumar.engine.kubernetes.program import Program
from jumar.engine.kubernetes.watch import Watch
from jumar.engine.kubernetes.watching import Key
from jumar.engine.kubernetes.way_in import way_into
from jumar.engine.local.planning import make_plan
from jumar.engine.local.starter import Starter
from jumar.engine.shared.files import FarStages, Stages, write_files
from jumar.engine.shared.jobfiles import Roots, SharedFiles
from jumar.engine.shared.observing import with_results
from jumar.engine.shared.stopping import ask_by_file
from jumar.errors import Conflict, EngineFailed, SubmitRefused
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import read_stop
from jumar.launch.jobdir.news import send_hint
from jumar.launch.jobdir.safefile import Unusable, create_json, read_object, write_json
from jumar.spec.job import JobSpec
from jumar.spec.records import Plan, StagingRecord
from jumar.spec.states import AttemptState
from jumar.store.users import UserStores

logger = logging.getLogger(__name__)
_PROGRAM, _MEMORY, _STAGE = "program", "kubernetes.json", ".stage"
_SHORT_LOG = 2000
_FAR = "jumar.launch.node.far"


class KubernetesEngine:
    """Implements `engine.base.Engine`, `HasQueue`, `RunsBeside` and `CarriesData`; thread-safe for different attempts."""

    name = "kubernetes"
    queue_name = "Kubernetes"

    def __init__(
        self, home: Path, options: ClusterOptions, *, stages: Stages | None = None
    ) -> None:
        self._home, self._options = home, options
        self._api = Api(options)
        self._stages = stages or Stages(UserStores(home))
        self._roots = Roots()
        self.files: JobFiles = SharedFiles(
            home / "jobs", self._roots, within=tuple(self._options.mounts)
        )
        self._program = Program(home / _PROGRAM)
        self._starter = Starter(home / "launch.log", home / "notify.sock")
        self._lock = threading.Lock()
        self._observer: Observer | None = None
        self._deleted: set[Key] = set()
        """What was asked to be deleted since this engine was made."""

    def prepare(self) -> None:
        """Have the client loaded, which takes a while, and the watches begun; the cluster may be away."""
        threading.Thread(target=self._begin, name="kubernetes", daemon=True).start()

    def _begin(self) -> None:
        try:
            self._observing(self._settled())
        except EngineFailed as error:
            logger.warning("%s", error.message)

    def plan(self, spec: JobSpec, *, user: str, archive: Path | None = None) -> Plan:
        """The objects of the job. Works with no cluster at hand too, then unchecked."""
        # The folder of the built-in store is not in pods.
        self._stages.check(spec, user, has_folder=False)
        directory = self._home / "jobs" / "<id>"
        made = make_plan(spec, archive=archive, cards=None, directory=directory, can_look=False)
        notes = list(made.notes)
        options = self._options
        try:
            options = self._settled()
        except EngineFailed as error:
            notes.append(f"not checked with the cluster: {error.message}")
        if spec.stages_data:
            notes += _only_here(self._stages.stores.job_values(user))
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
        watch = self._observing(options).watch
        self._write(attempt, directory)
        job, *rest = manifests(
            attempt.spec, attempt.job_id, attempt.number, options, self._origin()
        )
        made = created(self._api, watch.kind, job, self.queue_name)
        watch.jobs.shelf.add(made)
        for body in rest:
            create_owned(self._api, SERVICES, body, made)
        try:
            write_json(submitted_file(directory), {"uid": made["metadata"]["uid"]})
        except OSError as error:
            raise EngineFailed(f"cannot write {submitted_file(directory)}: {error}") from error

    def _write(self, attempt: Attempt, directory: JobDir) -> None:
        spec = attempt.spec
        write_files(
            directory,
            attempt,
            # Kept between attempts; images differ, so jobs do not share it.
            env_cache=attempt.directory / "envs",
            notify=self._home / "notify.sock",
            staging=self._stages.prepare(attempt, directory, self._far(attempt)),
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

    def _far(self, attempt: Attempt) -> FarStages:
        """What a pod sees of ours is its job's folder and the program."""
        found = f"PYTHONPATH={self._program.ready()}"
        return FarStages(attempt.directory / _STAGE, ("env", found, self._options.python, "-P"))

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

    def _observing(self, options: ClusterOptions) -> Observer:
        with self._lock:
            if self._observer is None:
                kind = VOLCANO_JOBS if options.volcano else JOBS
                selector = f"{SERVER}={self._server()}"
                self._observer = Observer(
                    self._roots,
                    Watch(self._api, kind, selector, self._changed),
                    queue_name=self.queue_name,
                    clear=self._cleared,
                    log_of=self._log_of,
                )
            return self._observer

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """How the attempts stand now."""
        found = list(attempts)
        if not found:
            return []
        self._starter.reap()
        try:
            seen = self._observing(self._settled()).look(found)
            return [with_results(*pair, self.staging) for pair in zip(found, seen, strict=True)]
        except EngineFailed:
            # Nothing is known, so nothing changes.
            return [
                Observation(job_id=one.job_id, number=one.number, state=AttemptState.STARTING)
                for one in found
            ]

    def staging(self, attempt: Attempt) -> StagingRecord | None:
        """As the attempt's status file tells it."""
        return self._stages.read(self._roots.of(attempt))

    def send_results(self, attempt: Attempt) -> None:
        """From here, where the job's folder is too."""
        directory = self._roots.of(attempt)
        # Its pods saw that folder alone; this process sees the homes and keys of all.
        within = (os.path.realpath(directory.root),)
        words = self._stages.resend(attempt, directory, within)
        self._starter.run_aside(words, directory.staging_log(0))

    def stop(self, attempt: Attempt, why: AttemptState) -> None:
        """By file, which the launchers obey, and by the cluster, which ends the pods with their grace."""
        ask_by_file(self._roots.of(attempt), why.value)
        self.clear(attempt)

    def kill(self, attempt: Attempt) -> None:
        """All of its processes at once."""
        directory = self._roots.of(attempt)
        observer = self._observing(self._settled())
        if read_stop(directory) is None:
            observer.killed(attempt)
        pods, _ = observer.watch.pods.shelf.of((attempt.job_id, attempt.number))
        for pod in pods:
            meta: Json = pod["metadata"]
            self._api.delete(PODS, str(meta["name"]), uid=str(meta["uid"]), grace_s=0)
        self.clear(attempt, again=True)

    def start_beside(self, attempt: Attempt) -> socket.socket:
        """Over the cluster's API, in the attempt's first pod."""
        options = self._settled()
        pods, _ = self._observing(options).watch.pods.shelf.of((attempt.job_id, attempt.number))
        first = next((pod for pod in pods if reasons.is_first(pod)), None)
        if first is None or not reasons.is_running(first):
            raise Conflict(
                f"Kubernetes does not run job {attempt.job_id} now",
                hint="see: kubectl get pods",
            )
        # As it was started: another program may be in use by now.
        _, _, _, python, program, *_ = first["spec"]["containers"][0]["command"]
        directory = self._roots.of(attempt)
        far = [python, "-m", _FAR, "far", directory.root, str(directory.number)]
        command = ["env", f"PYTHONPATH={program}", *far]
        way = way_into(options, str(first["metadata"]["name"]), command)
        self._starter.reap()
        return self._starter.start_with_stream([_FAR, "near", *way])

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
        kind = self._observing(self._settled()).watch.kind
        self._api.delete(kind, name_of(*key), uid=uid)
        self._deleted.add(key)

    def _cleared(self, attempt: Attempt) -> bool:
        """The same, whether it could be asked for or not."""
        try:
            self.clear(attempt)
        except (EngineFailed, SubmitRefused) as error:
            logger.warning("job %s: %s", attempt.job_id, error.message)
            return False
        return True

    def _log_of(self, pod: str) -> str:
        """The last lines of a pod that said nothing in its directory; empty where nobody has them."""
        try:
            return self._api.log(pod)[-_SHORT_LOG:]
        except (EngineFailed, SubmitRefused):
            return ""

    def _changed(self, key: Key) -> None:
        """Have the conductor look."""
        send_hint(str(self._home / "notify.sock"), key[0])

    def close(self) -> None:
        """Let go of the watches; jobs go on."""
        with self._lock:
            observer = self._observer
        if observer is not None:
            observer.watch.close()
        self._api.close()


def _only_here(stores: Json) -> list[str]:
    """Of stores whose address means another machine in every pod."""
    tables = [cast("Json", one) for one in stores.values() if isinstance(one, dict)]
    found = {str(one.get("endpoint") or "") for one in tables}
    return [
        f"the store at {address} is on this machine: pods cannot reach it there"
        for address in sorted(found)
        if (urlsplit(address).hostname or "").startswith(("127.", "localhost", "::1"))
    ]
