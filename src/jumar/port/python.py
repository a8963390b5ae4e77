"""Port one Python text: parse, resolve, ask each rule, apply what they propose."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from jumar.port import (
    file_remarks,
    guards,
    helpers,
    host_code,
    left_alone,
    prelude,
)
from jumar.port.context import PythonFile, Unplaced, top_packages, torch_uses
from jumar.port.names import collect
from jumar.port.options import Options
from jumar.port.packages import ROOTS, imported
from jumar.port.patterns import lazy_pattern
from jumar.port.project import Project
from jumar.port.records import (
    ApiUse,
    Change,
    Effort,
    Finding,
    Kind,
    Piece,
    Proposal,
    Remark,
    Severity,
)
from jumar.port.rules import RULES, own
from jumar.port.rules.base import Rule
from jumar.port.rules.jp600_packages import IMPORTED
from jumar.port.source import (
    ASYNC,
    TYPOGRAPHIC,
    Accepted,
    Parsed,
    Source,
    accept,
    edited,
    parse,
    silenced_lines,
    silences,
    skips_whole_file,
    sound,
)

TRACES = lazy_pattern(
    rb"torch|cuda|CUDA|nccl|NCCL|mindspore|tensorflow|nvidia|pynvml|cupy|triton|apex|deepspeed|"
    rb"flash[-_]att|xformers|bitsandbytes|BitsAndBytes|load_in_|faiss|lightning|detectron2|"
    rb"gpus_per_node|num_gpus|use_gpu|get_gpu_ids|MULTI_GPU|DataParallel|[\"']GPU[\"']|"
    rb"\b(?:import|from)[ \t]+(?:" + "|".join(ROOTS).encode() + rb")\b"
)
"""A Python file without any of these is never parsed."""
_NEVER_REACHED = frozenset({"JP203", "JP701", "JP705", "JP706", "JP707"})
"""What is not worth a report where only CUDA gets: the check above is reported instead (JP709)."""
_ABOUT_KERNELS = frozenset({"JP116", "JP702", "JP703", "JP704", "JP801", "JP802", "JP803", "JP805"})
"""What NPUs compute slowly, otherwise or not at all, which does not matter for code that stays on the CPU."""
_REPLACING = frozenset({"JP303", "JP631"})
"""Rules that replace the imports of CUDA-only packages."""
_FEATURE = "JP632"
_WORD = re.compile(r"\w+")
_ALWAYS = frozenset(
    {ast.Call, ast.Attribute, ast.Name, ast.ImportFrom, ast.Import, ast.If, ast.IfExp, ast.Assert}
    | {ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef}
)
"""Kinds of nodes that others than rules ask for: one walk finds all of them."""


class PortedText(NamedTuple):
    """The result for one text."""

    text: str
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    uses: tuple[ApiUse, ...] = ()
    imports: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()
    """Helper modules that the text now imports."""


def port_text(
    text: str,
    options: Options | None = None,
    *,
    path: str = "script.py",
    project: Project | None = None,
) -> PortedText:
    """Port one Python text; it is returned unchanged if there is nothing to do."""
    options = options or Options()
    project = project or Project(Path(), [path])
    source = Source(text, "utf-8")
    if skips_whole_file(text):
        return PortedText(text)
    try:
        known = project.take_tree(path, text)
        tree = Parsed(known, text, clean=True) if known is not None else parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        told = finding(source, "JP001", file_remarks.unreadable(source, error))
        return PortedText(text, findings=(told,) if options.wants("JP001") else ())
    remarks = (
        [file_remarks.typographic(source)] if any(char in text for char in TYPOGRAPHIC) else []
    )
    remarks = [] if tree.clean else remarks
    project.learn(path, tree.text, tree.module)
    rules = _rules_for(text, options)
    read = source if tree.clean else Source(tree.text, "utf-8")
    file = _open(read, tree.module, path, options, project, rules)
    replaces = left_alone.replaces_functions(file)
    if replaces is not None and options.wants("JP203"):
        remarks.append(("JP203", replaces))
    other = replaces is not None or left_alone.is_of_another_framework(file)
    rules = tuple(rule for rule in rules if left_alone.applies(rule.code, is_other=other))
    ported = _port(file, text, rules, remarks)
    if tree.clean or ASYNC.search(ported.text) is None or not options.wants("JP001"):
        return ported
    left = finding(Source(ported.text, "utf-8"), "JP001", file_remarks.old_word(ported.text))
    return ported._replace(findings=(*ported.findings, left))


def _open(
    source: Source,
    tree: ast.Module,
    path: str,
    options: Options,
    project: Project,
    rules: tuple[Rule, ...],
) -> PythonFile:
    wanted = _ALWAYS | {kind for rule in rules for kind in rule.nodes}
    names = collect(tree, project.package_of(path), frozenset(wanted))
    names.external = lambda dotted: project.follow(dotted, path)
    return PythonFile(path, source, tree, names, options, project, prelude.spelling(names))


def _rules_for(text: str, options: Options) -> tuple[Rule, ...]:
    rules, traces = _wanted_rules(options)
    # Searching a long text for each trace takes time; its words, each once, are far shorter.
    words = " ".join(set(_WORD.findall(text)))
    absent = {t for t, word in traces if word not in words or (word != t and t not in text)}
    return tuple(rule for rule in rules if not absent.issuperset(rule.traces))


@cache
def _wanted_rules(options: Options) -> tuple[tuple[Rule, ...], tuple[tuple[str, str], ...]]:
    """The rules that a run uses, and their traces, each once and with its longest word."""
    every = (*RULES, *map(own.rule, options.own_rules))
    rules = tuple(rule for rule in every if options.wants(rule.code))
    traces = {trace for rule in rules for trace in rule.traces}
    return rules, tuple((t, max(_WORD.findall(t), key=len, default="")) for t in traces)


def _port(
    file: PythonFile, original: str, rules: tuple[Rule, ...], remarks: list[tuple[str, Remark]]
) -> PortedText:
    source, options = file.source, file.options
    proposals: list[tuple[str, Proposal]] = []
    silenced = silenced_lines(source.text)
    file.replaced = frozenset(_replaced(file, rules))
    for_cuda = guards.reported(file)
    beside_npus = [*left_alone.beside_npus(file), *left_alone.for_rocm(file)]
    known = [
        *beside_npus,
        *left_alone.in_scripts(file),
        *left_alone.kept_values(file),
        *guards.left_alone(file),
    ]
    for code, outcome in _ask(file, rules):
        if silences(silenced, code, source, outcome):
            continue
        if isinstance(outcome, Proposal):
            if not _within(outcome, known):
                proposals.append((code, outcome))
        elif not _is_never_reached(code, outcome, for_cuda, beside_npus):
            remarks.append((code, outcome))
    if any(code in _ABOUT_KERNELS for code, _ in (*remarks, *proposals)):
        on_host = host_code.spans(file)
        remarks = [(c, r) for c, r in remarks if c not in _ABOUT_KERNELS or not _within(r, on_host)]
        proposals = [
            (c, p) for c, p in proposals if c not in _ABOUT_KERNELS or not _within(p, on_host)
        ]
    accepted = accept(proposals)
    # Once an import is replaced, its package needs no report.
    done = {(one.proposal.start, one.proposal.end) for one in accepted}
    remarks = _once_a_package(
        (code, r)
        for code, r in remarks
        if r.kind is not Kind.PACKAGE or (r.start, r.end) not in done
    )
    pieces = [p for one in accepted for p in one.proposal.pieces]
    needs = [(need, a.proposal.start) for a in accepted for need in a.proposal.needs]
    added = list(prelude.pieces(needs, file.tree, file.names, source, options, lambda: file.home))
    text = edited(original, [*pieces, *(piece for piece, _ in added)])
    helped = sorted(_helpers(needs, added, options))
    if text != original and not sound(text):
        accepted, added, helped, text = [], [], [], original
        remarks.append(file_remarks.would_not_parse())
    if helped and file.home.is_unlisted:
        remarks.append(file_remarks.unlisted(helped))
    changes = [_change(source, one) for one in accepted]
    changes += [_insertion(source, piece) for piece, _ in added]
    if _is_for_xpus(file):
        remarks = [(c, r._replace(severity=Severity.INFO, effort=Effort.NONE)) for c, r in remarks]
    found = (finding(source, code, remark) for code, remark in remarks)
    return PortedText(
        text,
        tuple(sorted(changes, key=lambda c: (c.line, c.code))),
        tuple(sorted({_once(f): f for f in found}.values(), key=lambda f: (f.line, f.code))),
        torch_uses(file),
        top_packages(file),
        tuple(helped),
    )


def _replaced(file: PythonFile, rules: tuple[Rule, ...]) -> Iterator[str]:
    """The names of CUDA-only packages that will come from torch or a helper module."""
    for rule in rules:
        for kind in (ast.Import, ast.ImportFrom) if rule.code in _REPLACING else ():
            for node in file.names.found[kind]:
                if any(isinstance(outcome, Proposal) for outcome in rule.check(node, file)):
                    yield from imported(node)
                    yield from _also_called(node, file)


def _also_called(node: ast.AST, file: PythonFile) -> Iterator[str]:
    """What else the names of an import may mean: `try: from a import f`, `except: from b import f`."""
    assert isinstance(node, (ast.Import, ast.ImportFrom))
    for alias in node.names:
        bound = file.names.values(alias.asname or alias.name, file.scope(node))
        yield from (name for name in bound if isinstance(name, str))


def _is_for_xpus(file: PythonFile) -> bool:
    """Whether a module is part of support for Intel's cards, which nothing else imports."""
    return any(part in ("ipex", "xpu") for part in Path(file.path).with_suffix("").parts)


def _is_never_reached(
    code: str,
    outcome: Remark,
    for_cuda: list[tuple[int, int]],
    beside_npus: list[tuple[int, int]],
) -> bool:
    """Whether NPUs never get to the place of a remark."""
    if code in _NEVER_REACHED and _within(outcome, for_cuda):
        return True
    return code in (*_NEVER_REACHED, _FEATURE) and _within(outcome, beside_npus)


def _within(outcome: Proposal | Remark, spans: list[tuple[int, int]]) -> bool:
    return any(start <= outcome.start and outcome.end <= end for start, end in spans)


def _once(one: Finding) -> tuple[str, int, str]:
    """The identity of a finding: each thing is reported once per line."""
    return one.code, one.line, one.subject


def _once_a_package(remarks: Iterable[tuple[str, Remark]]) -> list[tuple[str, Remark]]:
    """A package is reported where it is first imported without a way around it."""
    remarks = list(remarks)
    first: dict[tuple[str, str], tuple[bool, int]] = {}
    for code, remark in remarks:
        if code.startswith(IMPORTED):
            key, place = (code, remark.subject), _importance(remark)
            first[key] = min(place, first.get(key, place))
    return [
        (code, r)
        for code, r in remarks
        if first.get((code, r.subject), _importance(r)) == _importance(r)
    ]


def _importance(remark: Remark) -> tuple[bool, int]:
    return remark.severity is Severity.INFO, remark.start


def _helpers(
    needs: list[tuple[str, int]], added: list[tuple[Piece, str]], options: Options
) -> Iterator[str]:
    yield from {need for need, _ in needs} & set(helpers.HELPERS)
    if not options.has_accelerator and any(need == prelude.ACCELERATOR for _, need in added):
        yield helpers.DEVICE


def _ask(file: PythonFile, rules: tuple[Rule, ...]) -> Iterator[tuple[str, Proposal | Remark]]:
    torch_names: dict[type[ast.AST], list[ast.AST]] = {
        kind: file.torch_nodes(kind) for kind in (ast.Attribute, ast.Name)
    }
    for rule in rules:
        code, check = rule.code, rule.check
        if rule.chosen is not None:
            nodes = (node for node in rule.chosen(file) if isinstance(node, rule.nodes))
        else:
            found = torch_names if rule.torch_names_only else file.names.found
            nodes = chain.from_iterable(found[kind] for kind in rule.nodes)
        for node in nodes:
            try:
                for outcome in check(node, file):
                    yield code, outcome
            except Unplaced:
                yield "JP004", file_remarks.unplaced(file, node)


def finding(source: Source, code: str, remark: Remark) -> Finding:
    """A remark with its line, as the report shows it."""
    line = source.line_of(remark.start)
    return Finding(
        code,
        remark.severity,
        remark.effort,
        remark.kind,
        line,
        source.line_of(max(remark.start, remark.end - 1)),
        remark.start - source.starts[line - 1] + 1,
        remark.subject,
        source.line_text(line).strip()[:200],
        remark.why,
        remark.advice,
    )


def _change(source: Source, one: Accepted) -> Change:
    proposal = one.proposal
    line = source.line_of(proposal.start)
    end_line = source.line_of(max(proposal.start, proposal.end - 1))
    before = source.text[proposal.start : proposal.end]
    moved = [
        Piece(p.start - proposal.start, p.end - proposal.start, p.text) for p in proposal.pieces
    ]
    inside = all(p.start >= 0 and p.end <= len(before) for p in moved)
    after = edited(before, moved) if inside else proposal.pieces[0].text
    return Change(one.code, line, end_line, before, after, "MODIFY" if after else "DELETE")


def _insertion(source: Source, piece: Piece) -> Change:
    line = source.line_of(piece.start)
    return Change("JP000", line, line, "", piece.text.strip(), "INSERT")
