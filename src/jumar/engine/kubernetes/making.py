"""The objects of an attempt, made in the cluster once, however often it is asked for."""

from jumar.engine.base import StartHindered
from jumar.engine.kubernetes.answers import NoRoom, Taken
from jumar.engine.kubernetes.asking import Api, Json, Kind, part
from jumar.engine.kubernetes.manifests import JOB, SERVER, Manifest
from jumar.errors import EngineFailed, SubmitRefused
from jumar.launch.jobdir.trouble import Trouble
from jumar.spec.causes import Cause


def created(api: Api, kind: Kind, body: Manifest, queue_name: str) -> Json:
    """The object, made now or by a call whose answer was lost."""
    try:
        return api.create(kind, body)
    except Taken:
        found = _found(api, kind, body)
        if found is None:
            name = body["metadata"]["name"]
            raise EngineFailed(f"{name} was there a moment ago; trying again") from None
        return found
    except NoRoom as error:
        # Quotas are asked first: the object that has filled one may be this one itself.
        found = _found(api, kind, body)
        if found is None:
            raise _waits(error, queue_name) from error
        return found


def _found(api: Api, kind: Kind, body: Manifest) -> Json | None:
    """The object of that name; SubmitRefused where it is not ours."""
    name = str(body["metadata"]["name"])
    found = api.get(kind, name)
    if found is None:
        return None
    labels = part(found["metadata"], "labels")
    wanted: Json = body["metadata"]["labels"]
    if any(labels.get(label) != wanted[label] for label in (JOB, SERVER)):
        raise SubmitRefused(f"{name} exists in the namespace {api.namespace} and is not ours")
    return found


def _waits(error: NoRoom, queue_name: str) -> StartHindered:
    values: dict[str, str | int] = {"engine": queue_name, "error": f"ExceededQuota, {error.said}"}
    return StartHindered(Trouble(Cause.PENDING.value, error.message, values))


def create_owned(api: Api, kind: Kind, body: Manifest, owner: Json) -> None:
    """An object that goes when its owner goes."""
    meta: Json = owner["metadata"]
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "uid": meta["uid"],
    }
    whole = {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}}
    try:
        api.create(kind, whole)
    except Taken:
        return
