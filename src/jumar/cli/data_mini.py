"""`jumar data mini`: a small data set with every class of a large one."""

import click

from jumar.cli.output import local, note, print_json, say, visible
from jumar.cli.transfers import drawn, my_stores
from jumar.spec.amounts import bytes_text


@click.command()
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option("--per-class", default=20, type=click.IntRange(1), show_default=True)
@click.option("--seed", default=0, show_default=True, help="The same seed selects the same files.")
@click.option(
    "--static", multiple=True, metavar="PATTERN", help="Keep these whole, such as 'pretrained/*'."
)
@click.option("--json", "as_json", is_flag=True, help="Print what was kept as JSON.")
def command(
    source: str, target: str, per_class: int, seed: int, static: tuple[str, ...], as_json: bool
) -> None:
    """Keep a few files of each class, with matching labels.

    Supports folders of classes; images with CSV, lists, JSON, COCO, LabelMe, VOC, YOLO or mat labels;
    MNIST idx, CIFAR, TFRecord, WebDataset, MindRecord, Parquet, Arrow, JSON lines, npy and npz, HDF5, mat,
    LMDB, Megatron's bin and idx; single files, and archives of these. What cannot be reduced is listed.

    \b
    Example:
      jumar data mini obs://lab/dataset_unzip obs://lab/dataset_unzip_mini --per-class 20
    """
    from jumar.store.mini.make import make_mini
    from jumar.store.places import open_place
    from jumar.store.transfer.records import Progress

    config = my_stores()
    progress = Progress()
    with drawn(progress, quiet=as_json):
        report = make_mini(
            open_place(source, config),
            open_place(target, config),
            per_class=per_class,
            seed=seed,
            static=static,
            progress=progress,
        )
    if as_json:
        print_json(report)
    else:
        say(
            local(
                "kept {kept} of {files} files ({bytes}), {classes} classes, layout: {layout}",
                kept=report.kept,
                files=report.files,
                bytes=bytes_text(report.bytes),
                classes=report.classes,
                layout=report.layout,
            )
        )
        for one in report.whole:
            note(f"kept whole: {visible(one.name)} ({bytes_text(one.bytes)}): {visible(one.why)}")
