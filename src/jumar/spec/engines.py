"""What a job may say to one engine only; nothing else of a job depends on where it runs."""

import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

_WORD = r"^[A-Za-z0-9_][\w.,:@+-]*$"
Word = Annotated[str, Field(max_length=128, pattern=_WORD)]
_LOGIN = r"^(?:[A-Za-z_][\w.-]{0,63}@)?[A-Za-z0-9][A-Za-z0-9.-]{0,252}$"
_EXTRA = re.compile(r"--[a-z][a-z0-9-]*(=[^\n\r\0]*)?")
_OURS = frozenset(
    [
        "array",
        "chdir",
        "comment",
        "dependency",
        "export",
        "export-file",
        "gres",
        "hold",
        "job-name",
        "nodes",
        "ntasks",
        "ntasks-per-node",
        "open-mode",
        "output",
        "error",
        "input",
        "parsable",
        "requeue",
        "no-requeue",
        "signal",
        "test-only",
        "time",
        "wait",
        "wrap",
        "uid",
        "gid",
        "get-user-env",
    ]
)
"""What jumar says itself; a second word on it would break what it relies on."""


def is_login(text: str) -> bool:
    """Whether ssh can be told to go there: what begins with a dash would be an option."""
    return re.match(_LOGIN, text) is not None and not text.endswith("\n")


class SlurmOptions(BaseModel):
    """Of a job on a Slurm cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ssh: Annotated[str, Field(pattern=_LOGIN)] | None = Field(
        default=None,
        description="a login node, as ssh knows it, from where jobs are submitted with no server",
        examples=["ann@login1"],
    )
    partition: Word | None = None
    account: Word | None = None
    qos: Word | None = None
    gres: Word | None = Field(
        default=None,
        description="what the site calls its cards, such as npu or npu:ascend910; found if not given",
    )
    cpus_per_device: Annotated[int, Field(ge=1, le=4096)] | None = None
    mem_per_device: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,9}[MGT]$")] | None = Field(
        default=None, description="such as 32G", examples=["32G"]
    )
    extra: Annotated[list[str], Field(max_length=32)] = Field(
        default_factory=list[str],
        description="further options of sbatch, such as --exclude=node7",
    )

    @field_validator("extra")
    @classmethod
    def _options_of_sbatch(cls, value: list[str]) -> list[str]:
        for word in value:
            if not _EXTRA.fullmatch(word) or len(word) > 1024:
                raise ValueError(f"{word!r} is not an option like --exclude=node7")
            name = word[2:].partition("=")[0]
            if name in _OURS:
                raise ValueError(f"--{name} is set by jumar itself")
        return value
