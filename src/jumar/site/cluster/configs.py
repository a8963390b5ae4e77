"""slurm.conf, gres.conf and cgroup.conf of a cluster: text in, text out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jumar.site.cluster.hosts import Host

_KINDS = ("npu", "gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the cluster's programs keep their files, and as whom they run."""

    state: str = "/var/lib/slurm/slurmctld"
    spool: str = "/var/spool/slurmd"
    logs: str = "/var/log/slurm"
    runs: str = "/run"
    user: str = "slurm"
    munge_socket: str = ""
    controller_port: int = 6817


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What the files are made of; the first host has the controller."""

    name: str
    hosts: Sequence[Host]
    places: Places
    on_one_machine: bool = False
    """For tests: several nodes on one machine, without cgroups, and quick."""

    @property
    def kinds(self) -> list[str]:
        """Which cards there are."""
        return [kind for kind in _KINDS if any(cards(host, kind) for host in self.hosts)]


def cards(host: Host, kind: str) -> tuple[str, ...]:
    """The device files of a host's cards of one kind."""
    return host.npus if kind == "npu" else host.gpus


def slurm_conf(cluster: Cluster) -> str:
    """The cluster's main file, the same on every host."""
    first, places = cluster.hosts[0], cluster.places
    lines = [
        "# Made by jumar slurm setup.",
        f"ClusterName={cluster.name}",
        f"SlurmctldHost={first.hostname or first.name}({'127.0.0.1' if cluster.on_one_machine else first.address})",
        f"SlurmctldPort={places.controller_port}",
        f"SlurmUser={places.user}",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        f"StateSaveLocation={places.state}",
        f"SlurmdSpoolDir={places.spool}",
        f"SlurmctldPidFile={places.runs}/slurmctld.pid",
        f"SlurmdPidFile={places.runs}/slurmd{'-%n' if cluster.on_one_machine else ''}.pid",
        f"SlurmctldLogFile={places.logs}/slurmctld.log",
        f"SlurmdLogFile={places.logs}/slurmd{'-%n' if cluster.on_one_machine else ''}.log",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        # Without it a job that names no memory takes all of its node's.
        f"DefMemPerCPU={min(host.memory_mb // host.cores for host in cluster.hosts)}",
        "MpiDefault=none",
        "ReturnToService=2",
        # A job is asked to end and may save; then nothing of it is left.
        "KillWait=60",
        "JobRequeue=1",
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        # A batch step hears that its job has to make room when the grace time begins; else only steps do.
        "SlurmctldParameters=preempt_send_user_signal",
        *(_quick(places) if cluster.on_one_machine else _careful()),
        *([f"GresTypes={','.join(cluster.kinds)}"] if cluster.kinds else []),
        *(_node(host, cluster) for host in cluster.hosts),
        _partition("main", cluster, "Default=YES PriorityTier=1 GraceTime=60"),
        _partition("urgent", cluster, "Default=NO PriorityTier=10 PreemptMode=OFF"),
    ]
    return "\n".join(lines) + "\n"


def _careful() -> list[str]:
    """On hosts of their own."""
    return [
        "ProctrackType=proctrack/cgroup",
        "TaskPlugin=task/affinity,task/cgroup",
        "JobAcctGatherType=jobacct_gather/cgroup",
        # jumar reads from squeue how a job ended: an hour is enough for any restart of its server.
        "MinJobAge=3600",
        "SlurmdTimeout=120",
    ]


def _quick(places: Places) -> list[str]:
    return [
        # A requeued job waits for as long as a credential is good, so not 120 s; but a machine full of tests holds
        # a slurmd up for seconds, and then it refuses a step whose credential is too old.
        f"AuthInfo=socket={places.munge_socket},cred_expire=30",
        # A controller that is not answered in time asks a node again only after 80 to 140 s to end a job: until
        # then the node is completing.
        "MessageTimeout=60",
        "BatchStartTimeout=60",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
        "SlurmdParameters=config_overrides",
        "SchedulerParameters=sched_interval=2,bf_interval=1,batch_sched_delay=0,sched_min_interval=0",
        "MinJobAge=60",
        "SlurmdTimeout=120",
    ]


def _node(host: Host, cluster: Cluster) -> str:
    gres = [f"{kind}:{len(cards(host, kind))}" for kind in _KINDS if cards(host, kind)]
    words = [
        f"NodeName={host.name}",
        *([f"NodeHostname={host.hostname}", f"Port={host.port}"] if host.hostname else []),
        f"NodeAddr={host.address}",
        f"CPUs={host.cores}",
        f"RealMemory={host.memory_mb}",
        *([f"Gres={','.join(gres)}"] if gres else []),
        "State=UNKNOWN",
    ]
    return " ".join(words)


def _partition(name: str, cluster: Cluster, rest: str) -> str:
    nodes = ",".join(host.name for host in cluster.hosts)
    return f"PartitionName={name} Nodes={nodes} MaxTime=INFINITE State=UP {rest}"


def gres_conf(cluster: Cluster) -> str:
    """Which files the cards are: with them Slurm says which cards a job was given."""
    lines = ["# Made by jumar slurm setup."]
    for host in cluster.hosts:
        for kind in _KINDS:
            files = cards(host, kind)
            if files:
                lines.append(f"NodeName={host.name} Name={kind} File={_ranges(files)}")
    return "\n".join(lines) + "\n"


def _ranges(files: Sequence[str]) -> str:
    """Their names as Slurm writes them: /dev/davinci[0-7]."""
    prefixes = {re.sub(r"\d+$", "", file) for file in files}
    if len(files) == 1 or len(prefixes) > 1:
        return ",".join(files)
    (prefix,) = prefixes
    numbers = [file[len(prefix) :] for file in files]
    spans: list[list[int]] = []
    for number in sorted(map(int, numbers)):
        if spans and spans[-1][1] + 1 == number:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    text = ",".join(f"{a}-{b}" if a != b else str(a) for a, b in spans)
    return f"{prefix}[{text}]"


def cgroup_conf() -> str:
    """What jobs are kept to."""
    return (
        "# Made by jumar slurm setup.\n"
        "ConstrainCores=yes\nConstrainRAMSpace=yes\nConstrainDevices=yes\n"
    )
