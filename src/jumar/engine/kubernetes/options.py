"""What a site says of its cluster: the table `[kubernetes]` of config.toml."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jumar.errors import BadInput

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|[kMGTPE]i?)?$")]
AbsolutePath = Annotated[str, Field(pattern=r"^/[^:\x00]+$")]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Toleration(_Table):
    """A taint that jobs may ignore."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class Folder(_Table):
    """Where a path of jobs leads: into a claim, or to an NFS server."""

    claim: Name | None = None
    path: str = ""
    nfs: str | None = None
    read_only: bool = False


class ClusterOptions(_Table):
    """One cluster."""

    namespace: Name = "default"
    claim: Name = "jumar"
    """The PersistentVolumeClaim that is the server's home; its folder `jobs` has the job directories."""
    image: str | None = None
    """For jobs that name none."""
    volcano: bool = True
    """Whether the cluster has Volcano; else Kubernetes' own Jobs are used."""
    queue: Name | None = None
    """Volcano's queue."""
    kueue: Name | None = None
    """Kueue's local queue."""
    priority_class: Name | None = None
    chip: Literal["910", "910b", "910c", "310p", "950"] = "910b"
    node_selector: dict[str, str] = Field(default_factory=dict[str, str])
    """Such as host-arch = "huawei-arm" and accelerator-type = "module-910b-8" of MindCluster."""
    pull_secret: Name | None = None
    tolerations: list[Toleration] = Field(default_factory=list[Toleration])
    mounts: dict[AbsolutePath, Folder] = Field(default_factory=dict[str, Folder])
    """Paths that jobs see, such as /data."""
    shared_memory: Quantity = "16Gi"
    cpus_per_device: Quantity = "4"
    memory_per_device: Quantity = "16Gi"
    python: str = "python3"
    """In the images, 3.7 or later."""


def cluster_options(table: Mapping[str, Any]) -> ClusterOptions:
    """Checked; raises BadInput."""
    try:
        return ClusterOptions.model_validate(dict(table))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        known = ", ".join(sorted(ClusterOptions.model_fields))
        raise BadInput(f"[kubernetes] {where}: {first['msg']}", hint=f"known: {known}") from None
