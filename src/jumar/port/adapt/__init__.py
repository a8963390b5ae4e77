"""Changes that restructure a script on request: many cards, ModelArts, Xihe.

They work on the text that the rules have ported, and each either makes all of its edits or reports
exactly why it makes none."""

from dataclasses import replace

from jumar.errors import BadInput
from jumar.port.adapt import distributed, modelarts, xihe
from jumar.port.adapt.script import Adapted, Script
from jumar.port.records import FileResult
from jumar.port.scan import FileKind
from jumar.port.source import Source, Undecodable, read
from jumar.port.tree import TreeResult


def apply(result: TreeResult) -> TreeResult:
    """Apply the adaptations that the options ask for to the port."""
    options = result.options
    if options.distributed:
        known = {f.path for f in result.files if f.kind is FileKind.PYTHON}
        if options.distributed not in known:
            raise BadInput(
                f"no Python file {options.distributed} in {result.root}",
                hint="pass the script's path relative to SRC",
            )
        result = _adapt(result, [options.distributed], distributed.adapt)
    if options.modelarts:
        result = _adapt(result, _training_scripts(result), modelarts.adapt)
    if options.xihe:
        result = _adapt(result, _training_scripts(result), xihe.adapt)
    return result


def _training_scripts(result: TreeResult) -> list[str]:
    """Files that parse arguments and train: the ones a platform would start."""
    scripts = [
        found.path
        for found in result.files
        if found.kind is FileKind.PYTHON
        and not found.is_link
        and _looks_like_training((result.root / found.path).read_bytes())
    ]
    if not scripts:
        raise BadInput(
            f"no training script found in {result.root}",
            hint="it must parse arguments or have a main block, and train",
        )
    return scripts


def _looks_like_training(data: bytes) -> bool:
    starts = b"parse_args(" in data or b"__main__" in data
    trains = b".backward(" in data or b"model.train(" in data or b".fit(" in data
    return starts and trains


def _adapt(result: TreeResult, paths: list[str], adapt: "distributed.Adaptation") -> TreeResult:
    by_path = {r.path: r for r in result.results}
    for path in paths:
        before = by_path.get(path, FileResult(path))
        data = before.ported or (result.root / path).read_bytes()
        try:
            source = read(data, python=True)
        except Undecodable:
            continue
        adapted = adapt(Script(path, source, result))
        by_path[path] = _merged(before, source, adapted)
    return replace(result, results=tuple(by_path[path] for path in sorted(by_path)))


def _merged(before: FileResult, source: Source, adapted: Adapted) -> FileResult:
    changed = source.encode(adapted.text) if adapted.text != source.text else before.ported
    return before._replace(
        ported=changed,
        changes=(*before.changes, *adapted.changes),
        findings=(
            *(f for f in before.findings if f.code != adapted.settles),
            *adapted.findings,
        ),
        extra=(*before.extra, *adapted.extra),
    )
