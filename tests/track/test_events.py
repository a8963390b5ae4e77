"""TensorBoard's files: as its own writer makes them, torn, damaged, hostile, and as they grow."""

import random
import struct
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some
from tests.track.events_file import event, inside, record, simple, tensor, version

from jumar.track.crc32c import masked, sound
from jumar.track.events import EventReader

Curve = tuple[list[float], list[float], list[float]]


def read(data: bytes, *cuts: int) -> EventReader:
    """As the server does: from `offset` on, as far as the file goes."""
    reader = EventReader()
    for end in sorted({len(data), *(cut % (len(data) + 1) for cut in cuts)}):
        reader.feed(data[reader.offset : end])
    return reader


def curves(reader: EventReader) -> dict[str, Curve]:
    found = reader.curves.series.items()
    return {name: (list(one.x), list(one.y), list(one.times)) for name, one in found}


def log(steps: int) -> bytes:
    made = [version()]
    for step in range(steps):
        at = 1.7e9 + step
        made.append(record(event(at, step, simple("loss", step / 2))))
        made.append(record(event(at, step, tensor("acc", step / 4), simple("other", -step))))
        made.append(record(event(at, 1000 * step, tensor("lr", step / 8, "d"))))
        made.append(record(event(at, step, inside(1, b"text") + inside(8, bytes(step % 7 * 300)))))
    return b"".join(made)


def expected(steps: int, tag: str) -> Curve:
    part, often = {"loss": (0.5, 1), "acc": (0.25, 1), "other": (-1.0, 1), "lr": (0.125, 1000)}[tag]
    own = range(steps)
    return [float(often * s) for s in own], [part * s for s in own], [1.7e9 + s for s in own]


def test_every_form_of_scalar_is_read_with_its_step_and_time() -> None:
    found = curves(read(log(200)))
    assert found == {tag: expected(200, tag) for tag in ("loss", "acc", "other", "lr")}


@settings(max_examples=25, deadline=None)
@given(some.lists(some.integers(0, 1 << 20), max_size=8))
def test_how_a_file_grows_changes_nothing(cuts: list[int]) -> None:
    assert curves(read(log(12), *cuts)) == curves(read(log(12)))


def test_a_torn_end_is_read_when_it_is_whole() -> None:
    data = log(3)
    edges = [0]
    while edges[-1] < len(data):
        length = struct.unpack_from("<Q", data, edges[-1])[0]
        edges.append(edges[-1] + length + 16)
    for start, end in pairwise(edges[-5:]):
        for cut in range(start, end):
            reader = EventReader()
            reader.feed(data[:cut])
            assert reader.offset in (start, cut)
            reader.feed(data[reader.offset :])
            assert curves(reader) == curves(read(data))


def test_damage_costs_one_record_and_a_lost_frame_the_rest() -> None:
    good = [record(event(1.0, step, simple("loss", step))) for step in range(1, 60)]
    for place, lost in ((20, [30]), (8, list(range(30, 60)))):
        bad = bytearray(good[29])
        bad[place] ^= 1
        data = b"".join([*good[:29], bytes(bad), *good[30:]])
        assert curves(read(data))["loss"][0] == [s for s in range(1, 60) if s not in lost]
    # A network file system may show zeros before it shows what was written.
    whole = b"".join(good)
    reader = EventReader()
    half = len(b"".join(good[:30]))
    reader.feed(whole[:half] + bytes(len(whole) - half))
    assert reader.offset == half
    reader.feed(whole[half:])
    assert len(curves(reader)["loss"][0]) == 59


@settings(max_examples=60, deadline=None)
@given(some.binary(max_size=60), some.binary(max_size=200))
def test_whatever_a_record_holds_is_no_error(message: bytes, rest: bytes) -> None:
    long = b"\x10" + b"\xff" * 12
    data = (
        record(message) + record(b"\x09" + bytes(8) + message) + record(b"\x09" + bytes(8) + long)
    )
    reader = read(data + record(event(1.0, 7, simple("loss", 1.0))) + rest)
    assert 7.0 in reader.curves.series["loss"].x


def test_many_checksums_at_once_are_those_of_each() -> None:
    source = random.Random(3)
    texts = [source.randbytes(source.choice((5, 40, 41))) for _ in range(300)]
    # Some bytes are the same in all.
    texts = [b"\x09same" + text for text in texts]
    records = [text + masked(text).to_bytes(4, "little") for text in texts]
    assert sound(records) == records
    wrong = {7, 123, 299}
    for number in wrong:
        records[number] = records[number][:-1] + bytes([records[number][-1] ^ 128])
    assert sound(records) == [one for n, one in enumerate(records) if n not in wrong]
    assert masked(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_what_tensorboards_own_writer_writes_is_read(tmp_path: Path) -> None:
    event_class: Any = import_module("tensorboard.compat.proto.event_pb2").Event
    summary: Any = import_module("tensorboard.compat.proto.summary_pb2").Summary
    module: Any = import_module("tensorboard.summary.writer.event_file_writer")
    writer = module.EventFileWriter(str(tmp_path))
    for step in (0, 1, 300):
        value = summary.Value(tag="训练/loss", simple_value=step / 2)
        told = summary(value=[value])
        writer.add_event(event_class(wall_time=5.0 + step, step=step, summary=told))
    writer.close()
    (file,) = tmp_path.iterdir()
    assert curves(read(file.read_bytes())) == {
        "训练/loss": ([0, 1, 300], [0, 0.5, 150], [5, 6, 305])
    }
