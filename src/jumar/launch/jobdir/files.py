"""The job directory: where each file is.

What the platform writes (control) and what the job writes (work) are two places. For a person's own
jobs the first lies inside the second, and nothing may rely on that."""

import errno
import os
from typing import Iterable, List, NamedTuple, Optional

FORMAT = 1
WORK = "work"
"""What the folder of a site's job is called that the job may write, inside the one named after it."""


class JobDir(NamedTuple):
    """The files of one attempt, seen from one of its nodes."""

    root: str
    """What the job writes: its directory."""
    number: int
    node: int = 0
    control_root: Optional[str] = None
    """What the platform writes of this attempt, where that is not inside the job directory."""

    def path(self, *parts: str) -> str:
        """A path below the job directory."""
        return os.path.join(self.root, *parts)

    @property
    def job_id(self) -> str:
        """A job directory is named after its job; on a site, the folder above it."""
        name = os.path.basename(self.root)
        return os.path.basename(os.path.dirname(self.root)) if name == WORK else name

    @property
    def keeper_name(self) -> str:
        """What the keeper and the supervisor of this attempt are called in the list of processes;
        the kernel has room for 15 characters."""
        node = f".{self.node}" if self.node else ""
        return f"{self.job_id}.{self.number}{node}"[:15]

    @property
    def attempt(self) -> str:
        """The folder of this attempt in the job directory."""
        return self.path("attempts", str(self.number))

    @property
    def control(self) -> str:
        """The platform's folder of this attempt."""
        return self.control_root or self.attempt

    @property
    def top(self) -> str:
        """What all of the platform's files are in."""
        return self.control_root or self.root

    @property
    def node_folder(self) -> str:
        """The platform's folder of this attempt on this node."""
        return os.path.join(self.control, f"node{self.node}")

    @property
    def job(self) -> str:
        """What to run."""
        return self.path("job.json")

    @property
    def request(self) -> str:
        """What the engine gives to this attempt."""
        return os.path.join(self.control, "request.json")

    @property
    def stop(self) -> str:
        """Asks this attempt to end; the ranks know it as JUMAR_STOP_FILE."""
        return os.path.join(self.control, "stop.json")

    @property
    def stop_ready(self) -> str:
        """A stop file that waits to be renamed: on a full disk none could be written."""
        return os.path.join(self.control, "stop.ready.json")

    @property
    def claim(self) -> str:
        """Who keeps this attempt on this node."""
        return os.path.join(self.node_folder, "claim.json")

    @property
    def ranks(self) -> str:
        """Written when the ranks of this node have been started."""
        return os.path.join(self.node_folder, "ranks.json")

    @property
    def said(self) -> str:
        """How this attempt ended, in the supervisor's words; node 0 speaks for all nodes."""
        if self.node == 0:
            return os.path.join(self.control, "result.json")
        return os.path.join(self.node_folder, "said.json")

    @property
    def result(self) -> str:
        """What the keeper of this node saw of the end."""
        return os.path.join(self.node_folder, "result.json")

    @property
    def older_claim(self) -> str:
        """The claim of an attempt that an earlier jumar has started."""
        return os.path.join(self.control, "claim.json")

    @property
    def older_ranks(self) -> str:
        """The same for `ranks`."""
        return os.path.join(self.control, "ranks.json")

    @property
    def events(self) -> str:
        """One line per event of this node, over all attempts."""
        return self.path(f"events.node{self.node}.jsonl" if self.node else "events.jsonl")

    @property
    def pod_env(self) -> str:
        """What scripts of other platforms source on this node."""
        return self.path(f"pod.node{self.node}.env" if self.node else "pod.env")

    @property
    def store_file(self) -> str:
        """The stores and keys of the job's user, while this attempt runs; the ranks know it as
        JUMAR_STORE_FILE."""
        return os.path.join(self.attempt, "store.json")

    @property
    def stage_plan(self) -> str:
        """What data is to be carried."""
        return os.path.join(self.attempt, "stage.json")

    @property
    def stage_status(self) -> str:
        """How far the data has been carried."""
        return os.path.join(self.attempt, "staging.json")

    @property
    def beside(self) -> str:
        """What a command beside the ranks of this node needs to be like one of them, while they run."""
        node = f".node{self.node}" if self.node else ""
        return os.path.join(self.attempt, f"beside{node}.json")

    def side(self, endpoint: str) -> str:
        """Leads to the sockets of an endpoint's host, while there is one."""
        return os.path.join(self.attempt, f"side-{endpoint}")

    @property
    def board_link(self) -> str:
        """Says where in the user's home a link leads to the job's curves."""
        return self.path("board.json")

    @property
    def shell_pipe(self) -> str:
        """Where a job that only waits for its shell waits."""
        return self.path("shell.fifo")

    @property
    def contained_shell_pipe(self) -> str:
        """The same of a job in a container."""
        return self.path("home", "shell.fifo")

    @property
    def trial(self) -> str:
        """What a run on simulated NPUs has shown."""
        return self.path("trial.json")

    @property
    def contained_trial(self) -> str:
        """The same of a job in a container, where the job directory itself is read-only."""
        return self.path("home", "trial.json")

    def log(self, node: int, rank: int) -> str:
        """What one rank writes, over all attempts."""
        return self.path("logs", f"node{node}", f"rank{rank}.log")

    def plog(self, node: int) -> str:
        """The folder for what CANN writes about the ranks of a node."""
        return self.path("logs", f"node{node}", "plog")

    def setup_log(self, node: int) -> str:
        """What git and pip write while the attempt is prepared."""
        return self.path("logs", f"node{node}", "setup.log")

    def staging_log(self, node: int) -> str:
        """What the programs write that carry data."""
        return self.path("logs", f"node{node}", "staging.log")

    def endpoint_log(self, name: str) -> str:
        """What a program writes that was started to look into the job: `jupyter`, `tensorboard`."""
        return self.path("logs", f"node{self.node}", f"{name}.log")


def make_folders(directory: JobDir) -> None:
    """The folders of an attempt on its node; OSError where a link of the job's is in the way: what is written
    through it would land in the folder of another job."""
    logs = os.path.dirname(directory.log(directory.node, 0))
    os.makedirs(directory.root, exist_ok=True)
    _make_below(directory.root, directory.attempt)
    _make_below(directory.root, logs)
    if directory.control_root is not None:
        os.makedirs(directory.node_folder, exist_ok=True)
    else:
        _make_below(directory.root, directory.node_folder)


def _make_below(root: str, folder: str) -> None:
    place = root
    for name in os.path.relpath(folder, root).split(os.sep):
        place = os.path.join(place, name)
        try:
            os.mkdir(place)
        except OSError as error:
            # A file server may say that nothing can be made here, even of what is there.
            if os.path.isdir(place) and not os.path.islink(place):
                continue
            if not isinstance(error, FileExistsError):
                raise
            words = os.strerror(errno.ENOTDIR)
            raise NotADirectoryError(errno.ENOTDIR, words, place) from None


def has_ranks(directory: JobDir) -> bool:
    """Whether the ranks of this node have been started."""
    return any(map(os.path.lexists, (directory.ranks, directory.older_ranks)))


def is_plain(directory: JobDir) -> bool:
    """Whether the folders of the attempt are the platform's own: a job may put links in their place,
    and what is written through them lands elsewhere."""
    folders = (directory.root, os.path.dirname(directory.control), directory.control)
    return all(os.path.isdir(folder) and not os.path.islink(folder) for folder in folders)


def is_below(path: str, top: str) -> bool:
    """Whether it is that folder or something in it, by its name."""
    return path == top or path.startswith(top.rstrip("/") + "/")


def outermost(paths: Iterable[str]) -> List[str]:
    """Without those that lie in another one of them."""
    found = set(paths)
    return sorted(
        path for path in found if not any(path != top and is_below(path, top) for top in found)
    )
