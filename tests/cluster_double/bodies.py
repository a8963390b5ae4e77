"""Whether a cluster would take an object: the schemas of Kubernetes, and a strict one for Volcano.

The fields of Volcano's are those of its CRD (config/crd/volcano/bases/batch.volcano.sh_jobs.yaml) as far
as jumar writes them, all names compared by hand with COMMIT."""

import re
from typing import Any

from jsonschema import Draft202012Validator
from kubernetes_validate import validate  # pyright: ignore[reportMissingTypeStubs]
from kubernetes_validate.utils import (  # pyright: ignore[reportMissingTypeStubs]
    ValidationError,
)

from jumar.engine.kubernetes.asking import Json, part

COMMIT = "ed72c7c8"
VERSION = "1.31"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


class Invalid(Exception):
    """422."""


def _strict(properties: Json, *required: str) -> Json:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": list(required),
    }


_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
_EVENTS = [
    *("*", "PodPending", "PodRunning", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted"),
    *("OutOfSync", "CommandIssued", "JobUpdated", "TaskFailed"),
]
_ACTIONS = ["AbortJob", "RestartJob", "RestartTask", "TerminateJob", "CompleteJob", "ResumeJob"]
_POLICY = _strict(
    {
        "event": {"enum": _EVENTS},
        "action": {"enum": _ACTIONS},
        "exitCode": {"type": "integer"},
        "events": {"type": "array"},
        "timeout": _TEXT,
    },
    "action",
)
_TASK = _strict(
    {
        "name": _TEXT,
        "replicas": _COUNT,
        "minAvailable": _COUNT,
        "template": _strict({"metadata": {"type": "object"}, "spec": {"type": "object"}}, "spec"),
        "policies": {"type": "array", "items": _POLICY},
        "maxRetry": _COUNT,
        "topologyPolicy": _TEXT,
        "dependsOn": {"type": "object"},
        "partitionPolicy": {"type": "object"},
    },
    "template",
)
_SPEC = _strict(
    {
        "schedulerName": _TEXT,
        "minAvailable": _COUNT,
        "maxRetry": _COUNT,
        "ttlSecondsAfterFinished": _COUNT,
        "queue": _TEXT,
        "priorityClassName": _TEXT,
        "plugins": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": _TEXT},
        },
        "policies": {"type": "array", "items": _POLICY},
        "tasks": {"type": "array", "items": _TASK, "minItems": 1},
        "minSuccess": {"type": "integer", "minimum": 1},
        "runningEstimate": _TEXT,
        "volumes": {"type": "array"},
        "networkTopology": {"type": "object"},
    }
)
VOLCANO = Draft202012Validator(
    _strict(
        {
            "apiVersion": {"const": "batch.volcano.sh/v1alpha1"},
            "kind": {"const": "Job"},
            "metadata": {"type": "object"},
            "spec": _SPEC,
        },
        "apiVersion",
        "kind",
        "metadata",
        "spec",
    )
)


def check(body: Json) -> None:
    """Raises Invalid."""
    schema: Any = VOLCANO
    meta: Json = body["metadata"]
    if not _NAME.fullmatch(str(meta.get("name"))):
        raise Invalid(f"metadata.name: {meta.get('name')!r}")
    for name, value in part(meta, "labels").items():
        if not _LABEL.fullmatch(str(value)):
            raise Invalid(f"metadata.labels: {name}={value!r}")
    try:
        if body["apiVersion"].startswith("batch.volcano.sh"):
            for error in schema.iter_errors(body):
                raise Invalid(str(error.message))
            for task in body["spec"]["tasks"]:
                template: Json = task["template"]["spec"]
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
                validate({**pod, "spec": template}, VERSION, strict=True)
                _mounts(template)
            return
        validate(body, VERSION, strict=True)
    except ValidationError as error:
        raise Invalid(str(error.message)) from error
    if body["kind"] == "Job":
        _mounts(body["spec"]["template"]["spec"])


def _mounts(pod: Json) -> None:
    """What no schema tells."""
    names = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        paths = [mount["mountPath"] for mount in container["volumeMounts"]]
        if len(set(paths)) != len(paths):
            raise Invalid("volumeMounts: must be unique")
        for mount in container["volumeMounts"]:
            if mount["name"] not in names:
                raise Invalid(f"volumeMounts: {mount['name']} not found")
            path = str(mount.get("subPath", ""))
            if path.startswith("/") or ".." in path.split("/"):
                raise Invalid(f"volumeMounts.subPath: {path}")
