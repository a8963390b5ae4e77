"""Make a mini data set: list, choose, copy."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from jumar.errors import BadInput, Conflict, NotFound
from jumar.store.archive import is_archive
from jumar.store.mini.choice import Wish
from jumar.store.mini.layouts import choose
from jumar.store.mini.packed import unpacked_aside
from jumar.store.mini.tree import Chosen, Tree
from jumar.store.mini.webtar import open_shard
from jumar.store.parallel import in_threads
from jumar.store.places import Place, folder_exists
from jumar.store.transfer.plan import matching
from jumar.store.transfer.records import Progress
from jumar.store.transfer.run import copy_entry

_WRITERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A data file that was kept whole, and why."""

    name: str
    bytes: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniReport:
    """What a mini data set kept."""

    layout: str
    files: int
    kept: int
    bytes: int
    classes: int
    whole: tuple[Whole, ...] = ()


def make_mini(
    source: Place,
    target: Place,
    *,
    per_class: int,
    seed: int = 0,
    static: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> MiniReport:
    """Keep a few files of each class of `source` in `target`, and all that match `static`."""
    if per_class < 1:
        raise BadInput("--per-class must be at least 1")
    if source.url.holds(target.url):
        raise BadInput(
            f"{target.url} is inside {source.url}, whose labels would be cut",
            hint="choose a separate target",
        )
    target.store.make_ready()
    wish = Wish(per_class, seed, static)
    if source.key and is_archive(source.key) and not source.key.endswith("/"):
        alone = _alone(source)
        if open_shard(alone, next(iter(alone.entries)), set()) is None:
            return _mini_of_archive(source, target, wish)
        return _mini_of_file(source, target, wish)
    cut = len(source.prefix)
    tree = Tree(
        source.store,
        {entry.key[cut:]: entry for entry in source.store.walk(source.prefix)},
    )
    if not tree.entries:
        if folder_exists(source) or source.url.says_folder:
            what = "contains no files" if folder_exists(source) else "does not exist"
            raise NotFound(f"{source.url} {what}")
        return _mini_of_file(source, target, wish)
    whole = set(filter(matching(static), tree.entries))
    archives = sorted(
        name
        for name in tree.entries
        if is_archive(name) and name not in whole and open_shard(tree, name, set()) is None
    )
    if static and not whole and not archives:
        raise NotFound(f"no file in {source.url} matches {' or '.join(static)}")
    chosen = choose(tree.without(whole.union(archives)), wish)
    chosen.kept |= whole
    _check_empty(target, {*chosen.kept, *chosen.made, *archives})
    reports = [_written(tree, target, chosen, progress or Progress())]
    for name in archives:
        one = replace(source, url=source.url.child(name), key=source.prefix + name)
        to = replace(target, url=target.url.child(name), key=target.prefix + name)
        packed = _mini_of_archive(one, to, wish)
        inside = tuple(replace(w, name=f"{name}/{w.name}") for w in packed.whole)
        reports.append(replace(packed, whole=inside))
    return _summed(reports, files=len(tree.entries), kept_archives=len(archives))


def _check_empty(target: Place, names: set[str]) -> None:
    """Files of an earlier, larger selection would count as part of this one."""
    cut = len(target.prefix)
    other = next(
        (e.key[cut:] for e in target.store.walk(target.prefix) if e.key[cut:] not in names), None
    )
    if other is not None:
        raise Conflict(
            f"{target.url} has files that are not part of this selection, such as {other}",
            hint=f"choose another target, or remove it first: jumar data rm -r {target.url}",
        )


def _alone(source: Place) -> Tree:
    """A tree of the one file that the URL names; raises NotFound if there is none."""
    name = PurePosixPath(source.key).name
    return Tree(source.store, {name: source.store.stat(source.key)})


def _mini_of_file(source: Place, target: Place, wish: Wish) -> MiniReport:
    """Reduce a single file, to a file of that name or into a folder."""
    tree = _alone(source)
    name = next(iter(tree.entries))
    chosen = choose(tree, wish)
    if name not in chosen.made:
        raise BadInput(
            f"{source.url} cannot be reduced: "
            + chosen.whole.get(name, "not a data format that is known here"),
            hint="give the folder that it is in, if its labels are beside it",
        )
    is_file = PurePosixPath(target.key).suffix == PurePosixPath(name).suffix
    key = target.key if is_file and not target.url.says_folder else target.prefix + name
    target.store.write(key, chosen.made[name])
    return MiniReport(
        layout="+".join(sorted(chosen.layouts)),
        files=1,
        kept=1,
        bytes=len(chosen.made[name]),
        classes=chosen.classes,
    )


def _summed(reports: Iterable[MiniReport], *, files: int, kept_archives: int) -> MiniReport:
    first, *packed = reports
    layouts = {name for report in reports for name in report.layout.split("+") if name}
    return MiniReport(
        layout="+".join(sorted(layouts)) or "files",
        files=files,
        kept=first.kept + kept_archives,
        bytes=sum(report.bytes for report in (first, *packed)),
        classes=max(report.classes for report in (first, *packed)),
        whole=tuple(one for report in (first, *packed) for one in report.whole),
    )


def _written(tree: Tree, target: Place, chosen: Chosen, progress: Progress) -> MiniReport:
    sizes = {name: tree.entries[name].size for name in chosen.kept}
    sizes |= {name: len(data) for name, data in chosen.made.items()}
    size = sum(sizes.values())
    progress.plan(len(sizes), size)

    def write(name: str) -> None:
        if name in chosen.made:
            target.store.write(target.prefix + name, chosen.made[name])
        else:
            copy_entry(tree.store, tree.entries[name], target.store, target.prefix + name)
        progress.add_file(sizes[name])

    in_threads(write, sorted(sizes), _WRITERS)
    return MiniReport(
        layout="+".join(sorted(chosen.layouts)),
        files=len(tree.entries),
        kept=len(chosen.kept) + len(chosen.made),
        bytes=size,
        classes=chosen.classes,
        whole=tuple(
            Whole(name=name, bytes=tree.size(name), why=why)
            for name, why in sorted(chosen.whole.items())
        ),
    )


def _mini_of_archive(source: Place, target: Place, wish: Wish) -> MiniReport:
    """Unpack into a temporary folder, reduce, and repack if the target is an archive too."""
    with unpacked_aside(source) as aside:
        report = make_mini(
            aside.all, aside.few, per_class=wish.per_class, seed=wish.seed, static=wish.static
        )
        return replace(report, bytes=aside.deliver(target))
