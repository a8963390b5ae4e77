"""A job file: YAML text to a `JobSpec`, with errors that name the line and the field.

Aliases, deep nesting and huge files are refused before anything is built: a few lines of YAML
can stand for gigabytes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from jumar.errors import BadInput
from jumar.spec.faults import fault_words, field_words
from jumar.spec.job import JobSpec
from jumar.spec.text import flaws

MOST_BYTES = 1 << 20
MOST_DEPTH = 32
# The stubs say little; these are the three calls that are used.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_compose = cast("Callable[..., yaml.Node | None]", yaml.compose)
_parse = cast("Callable[..., Iterator[yaml.Event]]", yaml.parse)
Lines = dict[tuple[str | int, ...], int]


def read_spec_file(path: Path) -> JobSpec:
    """The job that a YAML (or JSON) file describes; relative folders are taken from the file."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise BadInput(f"{path} is larger than {MOST_BYTES} bytes, so it is not a job file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text (byte {error.start})") from error
    return parse_spec(text, source=str(path), folder=path.absolute().parent)


def parse_spec(text: str, *, source: str, folder: Path) -> JobSpec:
    """The job that `text` describes."""
    lines: Lines = {}
    values = _mapping(text, source, lines)
    # No path can be made of a text with a NUL.
    _check_text(values, source, lines)
    for field in ("code", "workdir"):
        value = values.get(field)
        if isinstance(value, str):
            values[field] = str((folder / Path(value).expanduser()).resolve())
    return validate_spec(values, source=source, lines=lines)


def _mapping(text: str, source: str, lines: Lines) -> dict[str, Any]:
    try:
        _refuse_aliases(text, source)
        node = _compose(text, Loader=_Loader)
        data = None if node is None else _build(node, (), lines, source)
    except yaml.YAMLError as error:
        raise BadInput(f"{source} is not YAML: {_yaml_words(error)}") from error
    if not isinstance(data, dict):
        raise BadInput(
            f"{source}: a job file must be a mapping",
            hint="see the fields: jumar spec schema",
        )
    return cast("dict[str, Any]", data)


def validate_spec(data: object, *, source: str, lines: Lines | None = None) -> JobSpec:
    """`data` as a job, or all that is wrong with it in one error."""
    _check_text(data, source, lines or {})
    try:
        spec = JobSpec.model_validate(data)
    except ValidationError as error:
        faults = [_Fault.of(detail, lines or {}) for detail in error.errors()]
        raise _refused(faults, source) from error
    spec.check_addresses()
    return spec


def spec_or_faults(data: dict[str, Any]) -> "JobSpec | list[tuple[str, str]]":
    """`data` as a job, or where each fault is, its field first, and what it is."""
    unfit = [(field_words(place), words) for place, words in flaws(data)]
    if unfit:
        return unfit
    try:
        return JobSpec.model_validate(data)
    except ValidationError as error:
        faults = [_Fault.of(detail, {}) for detail in error.errors()]
        return [(fault.field, fault.message) for fault in faults]


def read_mapping(text: str, *, source: str) -> dict[str, Any]:
    """The fields that some lines of YAML name, not checked in any way but their form."""
    return {} if not text.strip() else _mapping(text, source, {})


def _check_text(data: object, source: str, lines: Lines) -> None:
    unfit = [_Fault.at(place, words, lines) for place, words in flaws(data)]
    if unfit:
        raise _refused(unfit, source)


def _refused(faults: "list[_Fault]", source: str) -> BadInput:
    return BadInput(
        "\n".join(fault.words(source) for fault in sorted(faults, key=lambda f: f.line)),
        hint="all fields: jumar spec schema",
    )


@dataclass(frozen=True, slots=True)
class _Fault:
    """One thing that is wrong with a job, and the line where it is; 0 where there is none."""

    line: int
    field: str
    message: str

    @classmethod
    def of(cls, detail: Any, lines: Lines) -> "_Fault":
        # The branch of a union, written <so>, is part of pydantic's path; people only know fields.
        place = tuple(part for part in detail["loc"] if not str(part).startswith("<"))
        return cls.at(place, fault_words(detail), lines)

    @classmethod
    def at(cls, place: tuple[str | int, ...], message: str, lines: Lines) -> "_Fault":
        field = field_words(place)
        while place and place not in lines:
            place = place[:-1]
        return cls(lines[place] if place else 0, field, message)

    def words(self, source: str) -> str:
        where = f"{source}:{self.line}" if self.line else source
        return (
            f"{where}: {self.field}: {self.message}" if self.field else f"{where}: {self.message}"
        )


def _refuse_aliases(text: str, source: str) -> None:
    depth = 0
    for event in _parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise BadInput(
                f"{source}:{_line(event)}: YAML aliases are not allowed in a job file",
                hint="repeat the value where it is needed",
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MOST_DEPTH:
            raise BadInput(f"{source}:{_line(event)}: nested too deeply")


def _build(node: yaml.Node, place: tuple[str | int, ...], lines: Lines, source: str) -> Any:
    lines[place] = _line(node)
    if isinstance(node, yaml.MappingNode):
        built: dict[Any, Any] = {}
        pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
        for key_node, value_node in pairs:
            key = _scalar(key_node, source)
            if key in built:
                line = _line(key_node)
                raise BadInput(f"{source}:{line}: {key} is given twice")
            built[key] = _build(value_node, (*place, str(key)), lines, source)
            lines[(*place, str(key))] = _line(key_node)
        return built
    if isinstance(node, yaml.SequenceNode):
        items = cast("list[yaml.Node]", node.value)
        return [_build(item, (*place, i), lines, source) for i, item in enumerate(items)]
    return _scalar(node, source)


def _line(thing: yaml.Node | yaml.Event) -> int:
    mark = thing.start_mark
    return mark.line + 1 if mark is not None else 1


def _scalar(node: yaml.Node, source: str) -> Any:
    line = _line(node)
    if not isinstance(node, yaml.ScalarNode):
        raise BadInput(f"{source}:{line}: a field's name must be text")
    loader = _Loader("")
    try:
        return loader.construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError) as error:
        words = getattr(error, "problem", None) or error
        raise BadInput(f"{source}:{line}: {words}") from error
    finally:
        loader.dispose()


def _yaml_words(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"line {mark.line + 1}: {problem}" if mark else str(problem)
