"""Complete or torn: real files of the real libraries, cut, and files that mean harm."""

import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from jumar.launch.complete import (
    COMPLETE,
    TORN,
    UNKNOWN,
    Place,
    Versions,
    judge,
    newest_complete,
    set_aside_torn,
    survey,
)
from jumar.launch.jobdir.files import JobDir
from jumar.launch.node.progress import Progress

ROOT = Path(__file__).parents[2]
MINDSPORE = ROOT / ".venv-mindspore" / "bin" / "python"
SAVED_BY_MINDSPORE = """
import sys, mindspore as ms
from mindspore import nn
net = nn.SequentialCell(nn.Dense(9, 17), nn.ReLU(), nn.Dense(17, 3))
ms.save_checkpoint(net, sys.argv[1] + "/checked.ckpt", crc_check=True)
for step in (1, 2):
    ms.save_checkpoint(nn.Adam(net.trainable_params()), f"{sys.argv[1]}/net-{step}_10.ckpt")
"""


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    script = Path(__file__).with_name("complete_samples.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, folder],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return folder


def sharded(samples: Path) -> Iterator[Path]:
    for name in ("dcp/step-3", "ds/global_step1", "ds/global_step2", "megatron/iter_0000010"):
        yield samples / name
    yield samples / "hf" / "checkpoint-500"


def test_files_and_folders_of_every_kind(samples: Path, tmp_path: Path) -> None:
    found = survey(str(samples))
    assert len(found) == 10
    assert {one.verdict.state for one in found} == {COMPLETE}, found
    chosen = random.Random(15)
    for whole in sorted((samples / "files").iterdir()):
        data = whole.read_bytes()
        cut = tmp_path / whole.name
        # The last bytes, where a rule that looks at the end only would err, and anywhere.
        for length in [0, 1, len(data) - 1, *(chosen.randrange(len(data)) for _ in range(40))]:
            cut.write_bytes(data[:length])
            assert judge(str(cut)).state == TORN, (whole.name, length, len(data))
        cut.unlink()
    for folder in sharded(samples):
        _every_file_matters(folder)


def _every_file_matters(folder: Path) -> None:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        path.unlink()
        # Of the Trainer's own these do not tell by their absence; with the hooks' list they do.
        if path.name not in ("training_args.bin", "rng_state_1.pth", "scheduler.pt"):
            assert judge(str(folder)).state == TORN, f"without {path}"
        path.write_bytes(data[:-1])
        assert judge(str(folder)).state == TORN, f"{path} is one byte short"
        path.write_bytes(data)
    assert judge(str(folder)).state == COMPLETE, folder


@pytest.mark.skipif(not MINDSPORE.exists(), reason="make mindspore")
def test_mindspore_cut_anywhere(tmp_path: Path) -> None:
    command = [MINDSPORE, "-c", SAVED_BY_MINDSPORE, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    newest = tmp_path / "net-2_10.ckpt"
    data = newest.read_bytes()
    newest.unlink()
    assert {one.verdict.state for one in survey(str(tmp_path))} == {COMPLETE}
    borders = 0
    for length in range(len(data)):
        newest.write_bytes(data[:length])
        # Cut between two parameters only the comparison with the one before tells.
        if judge(str(newest)).state != TORN:
            borders += 1
            assert newest_complete(str(tmp_path)) == str(tmp_path / "net-1_10.ckpt"), length
    assert borders > 5
    newest.write_bytes(data)
    assert newest_complete(str(tmp_path)) == str(newest)


class Harm:
    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (Path("harmed"),)


def test_hostile_files_do_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    deep = b"\x80\x02" + b"(" * 200_000 + b"t" * 200_000 + b"."
    hostile = {
        "call.pkl": pickle.dumps(Harm()),
        "huge.pkl": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"x.",
        "memo.pkl": b"\x80\x02Nr\xff\xff\xff\xff.",
        "deep.pkl": deep,
        "key.pkl": b"\x80\x02}" + b"(" * 100_000 + b"t" * 100_000 + b"Ns.",
        "huge.safetensors": struct.pack("<Q", 1 << 62) + b"{}",
        "deep.safetensors": struct.pack("<Q", 100_000) + b"[" * 100_000,
        "odd.safetensors": struct.pack("<Q", 14) + b'{"a":[1,2,3]} ',
        "zip.pt": b"PK\x03\x04" + b"\xff" * 18 + b"PK\x05\x06" + b"\xff" * 16 + b"\0\0",
        "record.ckpt": b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x0a\x01a",
    }
    for name, data in hostile.items():
        (tmp_path / name).write_bytes(data)
    shards = tmp_path / "shards-1"
    shards.mkdir()
    (shards / ".metadata").write_bytes(pickle.dumps(Harm()))
    listed = tmp_path / "listed-1"
    listed.mkdir()
    (listed / "jumar.json").write_text('{"files": {"../../etc/passwd": 1, "x": "y"}}', "utf-8")
    os.mkfifo(tmp_path / "pipe.pt")
    (tmp_path / "loop-1").symlink_to(tmp_path)
    states = {os.path.basename(one.path): one.verdict.state for one in survey(str(tmp_path))}
    assert states.pop("call.pkl") == states.pop("memo.pkl") == COMPLETE
    assert states.pop("deep.pkl") == states.pop("key.pkl") == COMPLETE
    assert set(states) == {*hostile, "shards-1", "listed-1"} - {
        "call.pkl", "memo.pkl", "deep.pkl", "key.pkl",
    }  # fmt: skip
    assert COMPLETE not in states.values(), states
    for name in ("deep.pkl", "key.pkl", "memo.pkl"):
        # Also where it is not only walked through.
        shutil.copy(tmp_path / name, shards / ".metadata")
        assert judge(str(shards)).state != COMPLETE
    assert not (tmp_path / "harmed").exists()


def test_what_begins_as_a_pickle_and_is_none_is_left_alone(tmp_path: Path) -> None:
    files = {
        # An array's bytes lie behind what says what they are.
        "scaler.joblib": b"\x80\x04}\x8c\x04mean\x8c\x13joblib.numpy_pickle\x94\xff"
        + b"\xfe" * 999,
        # A record of 640 bytes, and numbers of two bytes each.
        "train.tfrecord": b"\x80\x02" + bytes(700),
        "tokens.bin": b"\x80\x03\x00\x01" * 100,
        # As numpy makes a file for an array, to be filled later.
        "replay.bin": bytes(4096),
        "train.bin": bytes(4096),
        "new.bin": b"",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        assert judge(str(tmp_path / name)).state == UNKNOWN, name
    for name in ("pytorch_model.bin", "optimizer.bin", "training_args.bin"):
        for data in (b"", bytes(4096)):
            (tmp_path / "torn").mkdir(exist_ok=True)
            (tmp_path / "torn" / name).write_bytes(data)
            assert judge(str(tmp_path / "torn" / name)).state == TORN, name
    shutil.rmtree(tmp_path / "torn")
    assert set_aside_torn(str(tmp_path)) == []


def test_a_model_that_was_saved_without_its_training_is_left_alone(
    samples: Path, tmp_path: Path
) -> None:
    """`model.save_pretrained("epoch-3")`, or what was downloaded to "phi-2"; but not what the Trainer was killed in."""
    whole = samples / "hf" / "checkpoint-500"

    def saved(name: str, *files: str) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for file in files:
            shutil.copy(whole / file, folder)
        return folder

    alone = [saved(name, "model.safetensors") for name in ("phi-2", "out/checkpoint-1")]
    assert [judge(str(folder)).state for folder in alone] == [UNKNOWN, UNKNOWN]
    assert set_aside_torn(str(tmp_path)) == []
    shutil.copytree(whole, tmp_path / "hf" / "checkpoint-500")
    torn = [
        saved("hf/checkpoint-600", "model.safetensors"),
        saved("other/checkpoint-600", "model.safetensors", "training_args.bin"),
    ]
    (saved("cut-2") / "model.safetensors").write_bytes(b"{}")
    assert [judge(str(folder)).state for folder in [*torn, tmp_path / "cut-2"]] == [TORN] * 3


def test_torn_ones_are_set_aside_and_the_pointers_follow(samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / "ds", tmp_path / "ds")
    latest = tmp_path / "ds" / "latest"
    latest.write_text("global_step2", "utf-8")
    (
        shard := tmp_path / "ds" / "global_step2" / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
    ).unlink()
    (told,) = set_aside_torn(str(tmp_path))
    assert "1 of 2 shards" in told.why
    assert not shard.parent.exists()
    assert told.now is not None
    assert Path(told.now).is_dir()
    assert latest.read_text("utf-8") == "global_step1"
    assert newest_complete(str(tmp_path)) == str(tmp_path / "ds" / "global_step1")
    # Kept until the next complete one.
    assert set_aside_torn(str(tmp_path)) == []
    assert not Path(told.now).exists()


def test_a_file_of_one_name_has_versions(samples: Path, tmp_path: Path) -> None:
    folder, cache = tmp_path / "ckpt", tmp_path / "cache"
    cache.mkdir()
    file = cache / "last_epoch.ckpt"
    first, second = ((samples / "files" / name).read_bytes() for name in ("new.pt", "arrays.npz"))
    place = Place(str(cache), str(folder))
    versions = Versions(place)
    with file.open("wb") as writing:
        writing.write(first)
        writing.flush()
        assert versions.keep(60) == [], "it may still be written to"
    assert Versions(place._replace(since=time.time() + 60)).keep(0) == [], "it is not the job's"
    (kept,) = versions.keep(0)
    assert versions.keep(0) == Versions(place).keep(0) == [], "it is kept already"
    file.write_bytes(second[:-7])
    assert versions.keep(0) == [], "it is torn"
    assert versions.restore() == [str(file)]
    assert file.read_bytes() == Path(kept).read_bytes() == first
    changed = file.stat().st_mtime
    for number, data in enumerate([second, first, second], 2):
        file.write_bytes(data)
        os.utime(file, (changed - number, changed - number))
        assert versions.keep(0)
    assert [path.read_bytes() for path in sorted_versions(folder)] == [first, second]
    # Empty at the start of a segment.
    shutil.rmtree(cache)
    (folder / ".left.by.a.killed.one").touch()
    versions.restore()
    assert file.read_bytes() == second
    assert not list(folder.glob(".*"))
    # Removed by the script itself, which has gone on since.
    file.rename(cache / "stage-two.ckpt")
    os.utime(cache / "stage-two.ckpt")
    assert versions.restore() == []


def test_versions_cost_no_copy_of_what_is_made_anew_and_no_room_that_is_needed(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ckpt"
    folder.mkdir()
    file = folder / "last.pt"
    place = Place(str(folder), str(tmp_path / "versions"))
    data = (samples / "files" / "new.pt").read_bytes()
    versions = Versions(place)
    for number in range(3):
        aside = folder / ".aside"
        aside.write_bytes(data)
        os.utime(aside, (number, number))
        aside.replace(file)
        (kept,) = versions.keep(0)
        assert (Path(kept).stat().st_ino == file.stat().st_ino) is (number > 0)
    file.write_bytes(data)
    full = SimpleNamespace(f_bavail=len(data), f_frsize=1)

    def statvfs(_: str) -> SimpleNamespace:
        return full

    monkeypatch.setattr(os, "statvfs", statvfs)
    (folder / "other.pt").write_bytes(data)
    with pytest.raises(OSError, match="No space left"):
        Versions(place).keep(0)
    assert len(sorted_versions(tmp_path / "versions")) == 2
    assert not [path for path in tmp_path.rglob(".*") if path.is_file()]


def sorted_versions(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.*") if path.is_file())


def test_what_is_written_after_the_clock_was_set_back_is_newer(tmp_path: Path) -> None:
    """Else a job would go on from the last checkpoint before that, segment after segment, and be ended for coming no further."""
    job, day_ns, now_ns = tmp_path / "job", 86400 * 10**9, time.time_ns()
    folder = job / "ckpt"
    folder.mkdir(parents=True)
    (job / "logs").mkdir()
    whole = b"\x80\x02N."
    for name, at_ns in (("a-1.pkl", now_ns - day_ns), ("a-2.pkl", now_ns + day_ns)):
        (folder / name).write_bytes(whole)
        os.utime(folder / name, ns=(at_ns, at_ns))
    progress = Progress(JobDir(str(job), 1))
    progress.note(str(job / "code"))
    assert not progress.came().advanced
    (folder / "a-3.pkl").write_bytes(whole)
    came = progress.came()
    assert came == (str(folder / "a-3.pkl"), True)
    assert newest_complete(str(folder)) == came.saved


def test_the_newest_is_newest_where_the_file_server_is_ahead_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, hour_ns = tmp_path / "ckpt", 3600 * 10**9
    folder.mkdir()
    behind_ns = time.time_ns() - hour_ns
    for name, at_ns in (("a-1.pkl", behind_ns - hour_ns), ("a-2.pkl", behind_ns + hour_ns)):
        (folder / name).write_bytes(b"\x80\x02N.")
        os.utime(folder / name, ns=(at_ns, at_ns))
    monkeypatch.setattr(time, "time_ns", lambda: behind_ns)
    assert newest_complete(str(folder)) == str(folder / "a-2.pkl")
    assert sorted(os.listdir(folder)) == ["a-1.pkl", "a-2.pkl"]


def test_versions_are_kept_of_what_was_written_before_the_clock_was_set_back(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "ckpt"
    folder.mkdir()
    (folder / "last.pkl").write_bytes(b"\x80\x02N.")
    later = time.time() + 86400
    os.utime(folder / "last.pkl", (later, later))
    versions = Versions(Place(str(folder), str(tmp_path / "kept")))
    assert versions.keep() == []
    assert len(versions.keep()) == 1
