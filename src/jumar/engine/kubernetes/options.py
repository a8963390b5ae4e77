"""What a site says of its cluster: the table `[kubernetes]` of config.toml."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

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
    """Where a path of jobs leads: into a claim, to an NFS server, or to a folder that every node has."""

    claim: Name | None = None
    path: Annotated[str, Field(pattern=r"^[^\x00]*$")] = ""
    nfs: str | None = None
    host: bool = False
    """Whether `path` is one of the nodes themselves, such as a mount that all of them have."""
    read_only: bool = False

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        named = [self.claim is not None, self.nfs is not None, self.host]
        if sum(named) > 1:
            raise ValueError("one of claim, nfs and host, not several")
        if ".." in self.path.split("/"):
            raise ValueError("path must not lead upwards")
        if self.host and not self.path.startswith("/"):
            raise ValueError("host needs the path of a folder on the nodes")
        return self


class ClusterOptions(_Table):
    """One cluster."""

    namespace: Name = "default"
    kubeconfig: str | None = None
    """How the cluster is reached: a file of kubectl's; else the pod's own account, or kubectl's default."""
    context: str | None = None
    """Which one of that file."""
    claim: Name = "jumar"
    """The PersistentVolumeClaim that is the server's home; its folder `jobs` has the job directories."""
    home: Folder | None = None
    """The server's home where that is no claim, or not all of one."""
    image: str | None = None
    """For jobs that name none."""
    volcano: bool | None = None
    """Whether jobs go to Volcano, or are Kubernetes' own Jobs; not said: to Volcano where it exists."""
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
    restricted: bool = False
    """Whether the namespace enforces the level `restricted` of pod security. What the cluster's default
    profile forbids then fails: a view of its own for a job that speaks of /cache, binding memory to nodes."""
    python: Annotated[str, Field(min_length=1)] = "python3"
    """In the images, 3.7 or later."""

    @property
    def home_folder(self) -> Folder:
        """Where the server's home is."""
        return self.home or Folder(claim=self.claim)


def cluster_options(table: Mapping[str, Any]) -> ClusterOptions:
    """Checked; raises BadInput."""
    try:
        return ClusterOptions.model_validate(dict(table))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        known = ", ".join(sorted(ClusterOptions.model_fields))
        raise BadInput(f"[kubernetes] {where}: {first['msg']}", hint=f"known: {known}") from None
