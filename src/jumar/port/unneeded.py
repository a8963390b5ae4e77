"""Requirements that nothing in the ported code needs: they only have to be removed from the list.

flash_attn is hours of work where a script calls it. Where its imports were replaced, or the code runs
without it, the list still asks for a package that cannot be installed."""

from collections.abc import Iterable, Iterator

from jumar.port.distributions import CODE
from jumar.port.packages import of_distribution, package_of
from jumar.port.records import Effort, FileResult, Finding, Kind, Severity, Words

_REMOVE = Words(
    "remove it from the list: the ported code does not need it",
    "请从清单中删除：迁移后的代码不需要该包",
)


def relieve(results: Iterable[FileResult]) -> list[FileResult]:
    """The results, with less effort for requirements that no finding in the code is about."""
    results = list(results)
    needed = set(_needed(results))
    return [
        one._replace(findings=tuple(_relieved(f, needed) for f in one.findings)) for one in results
    ]


def _needed(results: Iterable[FileResult]) -> Iterator[str]:
    for one in results:
        for found in one.findings:
            if (
                found.kind is Kind.PACKAGE
                and found.code != CODE
                and found.severity is not Severity.INFO
            ):
                yield _root(found.subject)


def _relieved(found: Finding, needed: set[str]) -> Finding:
    is_work = found.code == CODE and found.severity is Severity.WORK
    known = of_distribution(found.subject) if is_work else None
    if known is None or found.effort is Effort.MINUTES or _root(known.module) in needed:
        return found
    return found._replace(effort=Effort.MINUTES, advice=_REMOVE)


def _root(subject: str) -> str:
    """The package that a finding is about, whether it names a part of it or its distribution."""
    name = subject.partition(":")[0]
    known = package_of(name) or of_distribution(name)
    return (known.module if known is not None else name).partition(".")[0]
