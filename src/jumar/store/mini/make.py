"""Make a mini data set: list, choose, copy."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from jumar.errors import BadInput, Conflict, NotFound
from jumar.store.archive import is_archive
from jumar.store.mini.choice import Wish
from jumar.store.mini.layouts import Chosen, Tree, choose
from jumar.store.mini.packed import unpacked_aside
from jumar.store.parallel import in_threads
from jumar.store.places import Place, folder_exists
from jumar.store.transfer.plan import matching
from jumar.store.transfer.records import Progress
from jumar.store.transfer.run import copy_entry

_WRITERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniReport:
    """What a mini data set kept."""

    layout: str
    files: int
    kept: int
    bytes: int
    classes: int


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
        return _mini_of_archive(source, target, wish)
    cut = len(source.prefix)
    tree = Tree(
        source.store,
        {entry.key[cut:]: entry for entry in source.store.walk(source.prefix)},
    )
    if not tree.entries:
        raise _nothing_in(source)
    whole = set(filter(matching(static), tree.entries))
    archives = sorted(name for name in tree.entries if is_archive(name) and name not in whole)
    if static and not whole and not archives:
        raise NotFound(f"no file in {source.url} matches {' or '.join(static)}")
    chosen = choose(tree.without(whole.union(archives)), wish)
    chosen.kept |= whole
    _check_empty(target, {*chosen.kept, *chosen.made, *archives})
    reports = [_written(tree, target, chosen, progress or Progress())]
    for name in archives:
        one = replace(source, url=source.url.child(name), key=source.prefix + name)
        to = replace(target, url=target.url.child(name), key=target.prefix + name)
        reports.append(_mini_of_archive(one, to, wish))
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


def _nothing_in(source: Place) -> NotFound:
    if folder_exists(source):
        return NotFound(f"{source.url} contains no files")
    if source.key and not source.key.endswith("/"):
        # Raises if there is no such file either.
        source.store.stat(source.key)
        return NotFound(f"{source.url} is a file, not a folder or an archive")
    return NotFound(f"{source.url} does not exist")


def _summed(reports: Iterable[MiniReport], *, files: int, kept_archives: int) -> MiniReport:
    first, *packed = reports
    layouts = {name for report in reports for name in report.layout.split("+") if name}
    return MiniReport(
        layout="+".join(sorted(layouts)) or "files",
        files=files,
        kept=first.kept + kept_archives,
        bytes=sum(report.bytes for report in (first, *packed)),
        classes=max(report.classes for report in (first, *packed)),
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
    )


def _mini_of_archive(source: Place, target: Place, wish: Wish) -> MiniReport:
    """Unpack into a temporary folder, reduce, and repack if the target is an archive too."""
    with unpacked_aside(source) as aside:
        report = make_mini(
            aside.all, aside.few, per_class=wish.per_class, seed=wish.seed, static=wish.static
        )
        return replace(report, bytes=aside.deliver(target))
