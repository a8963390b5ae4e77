"""Slurm's own programs, each call with a limit; and what they print as records."""

import getpass
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jumar.errors import EngineFailed, SubmitRefused

LIMIT_S = 30.0
_AWAY = re.compile(
    r"unable to contact slurm controller|connection refused|socket timed out|"
    r"zero bytes were transmitted|unable to connect|communication connection failure|"
    r"i/o error|transport endpoint|munge|protocol authentication|slurm controller",
    re.IGNORECASE,
)
_COLUMNS = {
    "JobID": 20,
    "State": 24,
    "Reason": 64,
    "NodeList": 64,
    "Partition": 64,
    "QOS": 64,
    "Account": 64,
    "UserName": 64,
    "RestartCnt": 12,
    # Last: whoever submits a job may write anything into it, ends of lines and signs of ours too.
    "Comment": 128,
}
"""By their widths in bytes, to which Slurm fills them up and cuts them."""
_BEFORE_COMMENT = sum(_COLUMNS.values()) - _COLUMNS["Comment"]
_LIMITS = {
    "qos": ("Name", "MaxTRESPU", "MaxJobsPU", "MaxSubmitPU", "MaxTRES", "MaxWall", "GrpTRES", "GrpJobs"),
    "association": ("Account", "GrpTRES", "GrpJobs", "MaxJobs", "MaxTRES", "MaxWall"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One job of ours, as squeue tells it."""

    id: str
    state: str
    reason: str
    comment: str
    nodes: str
    partition: str = ""
    qos: str = ""
    account: str = ""
    user: str = ""
    """Who submitted it."""
    restarts: int = 0
    """How often Slurm has put it back into the queue."""


@dataclass(frozen=True, slots=True)
class Gres:
    """One kind of card of the site."""

    name: str
    """With its type, where it has one."""
    cores_per_card: int
    """A card's part of its node, on the node where that is least."""


class Slurm:
    """The cluster that this machine's Slurm programs speak to."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = cleaned(os.environ if environ is None else environ)

    def submit(self, options: Sequence[str], script: str) -> str:
        """The id of the new job. SubmitRefused: Slurm will not have it, EngineFailed: it cannot say."""
        done = self.run(["sbatch", "--parsable", *options], script)
        if done.returncode == 0:
            return done.stdout.strip().partition(";")[0]
        said = _words(done.stderr)
        # One that was killed, or says nothing, has not been told no.
        if _AWAY.search(said) or done.returncode < 0 or not done.stderr.strip():
            raise EngineFailed(f"Slurm does not answer: {said}")
        raise SubmitRefused(f"Slurm refuses the job: {said}", hint="sinfo; jumar run --dry-run")

    def test(self, options: Sequence[str], script: str) -> str:
        """When it would start, in Slurm's words; SubmitRefused and EngineFailed as above."""
        done = self.run(["sbatch", "--test-only", *options], script)
        said = _words(done.stderr).removeprefix("sbatch: ")
        if done.returncode == 0:
            return said
        if _AWAY.search(said):
            raise EngineFailed(f"Slurm does not answer: {said}")
        raise SubmitRefused(f"Slurm refuses the job: {said}", hint="see what there is: sinfo")

    def rows(self, name: str | None = None) -> list[Row]:
        """All jobs of ours, ended ones too as long as Slurm knows them; EngineFailed: nobody knows."""
        columns = ",".join(f"{name}:{width}" for name, width in _COLUMNS.items())
        words = ["squeue", "--noheader", "--states=all", f"--Format={columns}"]
        if name is not None:
            words.append(f"--name={name}")
        done = self.run(words)
        if done.returncode:
            raise EngineFailed(f"squeue does not answer: {_words(done.stderr)}")
        return read_rows(done.stdout)

    def past(self, name: str, job: str) -> Row | None:
        """A job in the accounts, once squeue has forgotten it; None where it is not in them, or the site
        keeps none. By both: names are of all attempts, and ids are used twice after a crash."""
        words = [
            "sacct",
            "--noheader",
            "--parsable2",
            "--allocations",
            "--allusers",
            "--duplicates",
        ]
        fields = "JobIDRaw,State,NodeList,JobName"
        try:
            done = self.run(
                [*words, "--starttime=now-30days", f"--name={name}", f"--format={fields}"]
            )
        except EngineFailed:
            return None
        lines = [line.split("|") for line in done.stdout.splitlines()]
        found = [line for line in lines if len(line) == 4 and (line[0], line[3]) == (job, name)]
        if done.returncode or not found:
            return None
        _, state, nodes, _ = found[-1]
        # It may say by whom: CANCELLED by 1000.
        return Row(job, state.partition(" ")[0], "", "", nodes.replace("None assigned", ""))

    def partitions(self) -> dict[str, dict[str, str]]:
        """What each partition allows, as Slurm writes it; EngineFailed."""
        done = self.run(["scontrol", "show", "partition", "--oneliner"])
        if done.returncode:
            raise EngineFailed(f"scontrol does not answer: {_words(done.stderr)}")
        rows = [pairs(line.split()) for line in done.stdout.splitlines()]
        return {row["PartitionName"]: row for row in rows if "PartitionName" in row}

    def limits(self, kind: str) -> dict[str, dict[str, str]]:
        """Those of each QOS or of each account of this user, by its name; EngineFailed where the site
        keeps no accounts."""
        fields = _LIMITS[kind]
        words = ["sacctmgr", "--noheader", "--parsable2", "--readonly", "show", kind]
        if kind == "association":
            words.append(f"user={getpass.getuser()}")
        done = self.run([*words, f"format={','.join(fields)}"])
        if done.returncode:
            raise EngineFailed(f"sacctmgr does not answer: {_words(done.stderr)}")
        rows = [
            dict(zip(fields, line.split("|"), strict=False)) for line in done.stdout.splitlines()
        ]
        return {row[fields[0]]: row for row in rows if row.get(fields[0])}

    def cancel(self, ids: Sequence[str], *, pending_only: bool = False, kill: bool = False) -> None:
        """Ask Slurm to end jobs; EngineFailed when it could not be asked."""
        if not ids:
            return
        how = ["--state=PENDING"] if pending_only else ["--full", "--signal=KILL"] if kill else []
        done = self.run(["scancel", *how, *ids])
        if done.returncode and _AWAY.search(done.stderr):
            raise EngineFailed(f"scancel failed: {_words(done.stderr)}")

    def gres(self, limit_s: float = LIMIT_S) -> list[Gres]:
        """What the site calls its cards: npu, npu:ascend910, gpu:a100."""
        done = self.run(["sinfo", "--noheader", "--format=%c %G"], limit_s=limit_s)
        if done.returncode:
            raise EngineFailed(f"sinfo does not answer: {_words(done.stderr)}")
        return read_gres(done.stdout)

    def way_into(self, job: str, program: Sequence[str]) -> list[str]:
        """The command that runs a program on the first node of a running job, among what runs there."""
        own = [f"SLURM_CONF={self._environ['SLURM_CONF']}"] if "SLURM_CONF" in self._environ else []
        step = ("--overlap", "--nodes=1", "--ntasks=1", "--relative=0", "--mem=0", "--quiet")
        return ["env", *own, "srun", f"--jobid={job}", *step, "--unbuffered", *program]

    def run(
        self, words: Sequence[str], text: str = "", limit_s: float = LIMIT_S
    ) -> "subprocess.CompletedProcess[str]":
        """One of Slurm's programs to its end; EngineFailed where it does not come to one."""
        try:
            return subprocess.run(
                words,
                input=text,
                capture_output=True,
                text=True,
                errors="replace",
                env=self._environ,
                timeout=limit_s,
                check=False,
            )
        except FileNotFoundError as error:
            raise missing(words[0]) from error
        except subprocess.TimeoutExpired as error:
            raise EngineFailed(f"{words[0]} does not answer within {limit_s:g} s") from error


def missing(program: str) -> EngineFailed:
    """Without Slurm's programs nothing can be asked."""
    return EngineFailed(
        f"{program} is not installed on this machine",
        hint="use a login node of the cluster; jumar slurm setup creates one",
    )


def pairs(words: Sequence[str]) -> dict[str, str]:
    """`a=1` as names and values."""
    parted = [word.partition("=") for word in words]
    return {name: value for name, _, value in parted}


def cleaned(environ: Mapping[str, str]) -> dict[str, str]:
    """Without what an allocation around this process, or jumar itself, has set."""
    return {
        name: value
        for name, value in environ.items()
        if name == "SLURM_CONF" or not name.startswith(("SLURM_", "SRUN_", "JUMAR_"))
    }


def read_rows(text: str) -> list[Row]:
    """The lines of squeue that are about jobs of ours. One that is no longer than a comment is the rest of a
    comment with several lines: it could say anything of anybody's job."""
    rows: list[Row] = []
    for line in text.encode().split(b"\n"):
        if len(line) <= _BEFORE_COMMENT:
            continue
        found, start = dict[str, str](), 0
        for name, width in _COLUMNS.items():
            found[name] = line[start : start + width].decode("utf-8", "replace").strip()
            start += width
        if found["Comment"].startswith("jumar:"):
            rows.append(
                Row(
                    id=found["JobID"],
                    state=found["State"],
                    reason=found["Reason"],
                    comment=found["Comment"],
                    nodes=found["NodeList"],
                    partition=found["Partition"],
                    qos=found["QOS"],
                    account=found["Account"],
                    user=found["UserName"],
                    restarts=int(found["RestartCnt"]) if found["RestartCnt"].isdecimal() else 0,
                )
            )
    return rows


def read_gres(text: str) -> list[Gres]:
    """Each name once, from lines of sinfo such as `64+ npu:ascend910:8(S:0-1),gpu:2`."""
    found: dict[str, Gres] = {}
    for line in text.splitlines():
        cores, _, resources = line.strip().partition(" ")
        for word in re.sub(r"\([^)]*\)", "", resources).split(","):
            name, _, count = word.strip().rpartition(":")
            if name and count.isdigit() and int(count) and cores.rstrip("+").isdigit():
                share = int(cores.rstrip("+")) // int(count)
                before = found.get(name)
                least = share if before is None else min(share, before.cores_per_card)
                found[name] = Gres(name, least)
    return list(found.values())


def _words(text: str) -> str:
    return " ".join(text.split())[:500] or "no reason given"
