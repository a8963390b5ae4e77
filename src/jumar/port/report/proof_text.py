"""What a certificate says, in words."""

from collections.abc import Iterator

from jumar.port.proof import Certificate, Difference, TestCounts, Verdict
from jumar.port.proof_runs import Failure
from jumar.port.records import Words

_HEADS = {
    Verdict.DIFFERS: Words(
        "not proven: the port computes different results", "未通过：迁移后的计算结果不同"
    ),
    Verdict.NOT_DETERMINISTIC: Words(
        "not proven: the original itself gives very different numbers in every run",
        "无法证明：原脚本每次运行的结果差异很大",
    ),
    Verdict.NO_NUMBERS: Words(
        "not proven: the results are NaN or infinite in both runs",
        "无法证明：两次运行的结果均为 NaN 或无穷大",
    ),
    Verdict.NO_STEPS: Words(
        "not proven: the two runs share no loss or optimizer step within the limits",
        "无法证明：限定范围内两次运行没有共同的损失或优化器步",
    ),
    Verdict.NO_DEVICE: Words(
        "not proven: the port trained on the CPU and used no NPU",
        "无法证明：迁移后的代码没有使用 NPU",
    ),
    Verdict.ORIGINAL_FAILED: Words(
        "not proven: the original fails on the CPU", "无法证明：原脚本在 CPU 上运行失败"
    ),
    Verdict.PORT_FAILED: Words(
        "not proven: the port fails, but the original does not",
        "未通过：迁移后运行失败，原脚本正常",
    ),
    Verdict.NO_TESTS: Words(
        "not proven: no test passes with the original", "无法证明：原代码没有一个测试通过"
    ),
    Verdict.BOTH_FAILED: Words(
        "not proven: both the original and the port fail",
        "无法证明：原脚本与迁移后的脚本均运行失败",
    ),
}
_MOST_TESTS = 20
_ADVICE = {
    Verdict.NOT_DETERMINISTIC: Words(
        "Use fixed random seeds, then try again.",
        "请固定所有随机种子后重试。",
    ),
    Verdict.NO_NUMBERS: Words(
        "Use data, a learning rate or a loss scale with which the original trains on the CPU.",
        "请使用能让原脚本在 CPU 上正常训练的数据、学习率或损失缩放。",
    ),
    Verdict.NO_STEPS: Words(
        "Allow more time or use less data; the proof needs at least one backward pass.",
        "请增加时间或减小数据；证明至少需要一次反向传播。",
    ),
    Verdict.NO_DEVICE: Words(
        "Pass the option that makes the script use the card.", "请传入让脚本使用加速卡的参数。"
    ),
    Verdict.ORIGINAL_FAILED: Words(
        "The original runs without a card, with the CPU in place of cuda; code that only runs on "
        "a CUDA card cannot be compared.",
        "原脚本不使用加速卡运行，其中的 cuda 由 CPU 代替；只能在 CUDA 卡上运行的代码无法对比。",
    ),
}


def headline(proof: Certificate) -> Words:
    """The verdict in one line."""
    if proof.tests is not None and proof.verdict in (Verdict.PROVEN, Verdict.TESTS_FAIL):
        return _tests_headline(proof.tests)
    if proof.verdict is not Verdict.PROVEN:
        return _HEADS[proof.verdict]
    losses, parameters = len(proof.losses), proof.parameters
    if proof.noise is not None and proof.largest > proof.tolerance:
        how = Words(
            "equal within the original's own run-to-run noise",
            "差异未超出原脚本自身的运行波动",
        )
    elif proof.bitwise:
        how = Words("equal to the last bit", "逐位相同")
    else:
        how = Words(
            f"equal within {proof.tolerance:g} (largest difference {proof.largest:.2g})",
            f"在容差 {proof.tolerance:g} 内一致（最大差异 {proof.largest:.2g}）",
        )
    return Words(
        f"proven: {_many(losses, 'loss', 'losses')} and {_many(parameters, 'parameter')} over "
        f"{_many(proof.steps, 'step')}, {how.en}",
        f"已证明：{proof.steps} 步内 {losses} 个损失、{parameters} 个参数，{how.zh}",
    )


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"


def details(proof: Certificate) -> Iterator[Words]:
    """Further details, one sentence each."""
    if proof.origin is not None:
        yield _difference(Words("First difference inside", "最早出现差异的位置"), proof.origin)
    if proof.difference is not None:
        yield _difference(Words("First difference", "首个差异"), proof.difference)
    if proof.tests is not None:
        yield from _broken(proof.tests)
    for side, failure in failures(proof):
        where = f" ({failure.where})" if failure.where else ""
        yield Words(f"{side.en}: {failure.what}{where}", f"{side.zh}：{failure.what}{where}")
    yield from _circumstances(proof)
    if proof.verdict in _ADVICE:
        yield _ADVICE[proof.verdict]


def _broken(tests: TestCounts) -> Iterator[Words]:
    for name in tests.broken[:_MOST_TESTS]:
        yield Words(name, name)
    more = len(tests.broken) - _MOST_TESTS
    if more > 0:
        yield Words(f"and {more} more", f"以及另外 {more} 个")


def failures(proof: Certificate) -> Iterator[tuple[Words, Failure]]:
    """How each side failed, if it did; that tests failed is not a failure of the run."""
    if proof.tests is not None and proof.tests.original:
        return
    if proof.original_failure is not None:
        yield Words("Original", "原脚本"), proof.original_failure
    if proof.ported_failure is not None:
        yield Words("Port", "迁移后"), proof.ported_failure


def _circumstances(proof: Certificate) -> Iterator[Words]:
    """What limits the verdict."""
    if proof.noise is not None:
        yield Words(
            f"The script does not repeat its own results: losses of {proof.runs} runs on each side "
            f"differ by up to {proof.noise:.2g}, the port's by no more than the original's.",
            f"该脚本自身的结果不可复现：两侧各运行 {proof.runs} 次，损失最多相差 {proof.noise:.2g}，"
            "迁移后的波动不超过原脚本。",
        )
    elif proof.runs > 1:
        yield Words(f"Each side was run {proof.runs} times.", f"两侧各运行了 {proof.runs} 次。")
    if proof.equal:
        for package, where in proof.not_run:
            yield Words(
                f"The proof did not run what needs {package} ({where}), which NPUs do not have.",
                f"证明没有运行需要 {package} 的代码（{where}），NPU 上没有该包。",
            )
    if proof.equal and proof.cut:
        yield Words(
            "The time limit ended a run before it was done; only the steps that both took are compared.",
            "时间上限提前结束了运行，仅对比两侧都完成的步。",
        )
    if proof.equal and proof.not_finite:
        yield Words(
            f"{_many(proof.not_finite, 'loss is', 'losses are')} NaN or infinite in both runs.",
            f"有 {proof.not_finite} 个损失在两次运行中均为 NaN 或无穷大。",
        )


def _tests_headline(tests: TestCounts) -> Words:
    if tests.broken:
        return Words(
            f"not proven: {len(tests.broken)} of {_many(tests.original, 'test')} that pass with the "
            "original fail with the port",
            f"未通过：原代码通过的 {tests.original} 个测试中，有 {len(tests.broken)} 个在迁移后失败",
        )
    if tests.passed == tests.total:
        return Words(
            f"proven: {_many(tests.passed, 'test passes', 'tests pass')} with the original and with "
            "the port",
            f"已证明：{tests.passed} 个测试在原代码和迁移后的代码上均通过",
        )
    verb = "passes" if tests.passed == 1 else "pass"
    return Words(
        f"proven: {tests.passed} of {tests.total} tests {verb} with the original and with the port; "
        "the others do not pass with the original",
        f"已证明：{tests.total} 个测试中有 {tests.passed} 个在原代码和迁移后的代码上均通过；"
        "其余在原代码上即未通过",
    )


def _difference(title: Words, found: Difference) -> Words:
    where = f" ({found.where})" if found.where else ""
    rank_en = f", process {found.rank}" if found.rank else ""
    rank_zh = f"，rank {found.rank}" if found.rank else ""
    return Words(
        f"{title.en}: {found.what}{rank_en}{where}: {found.original} became {found.ported}.",
        f"{title.zh}：{found.what}{rank_zh}{where}：{found.original} 变为 {found.ported}。",
    )


def setting(proof: Certificate) -> Words:
    """What was run where."""
    import shlex

    command = shlex.join(proof.command)
    seconds = f"{proof.seconds[0]:.1f} s, {proof.seconds[1]:.1f} s"
    # No process trains in a run of tests, or before a failure.
    processes = Words("", "")
    if proof.ranks:
        processes = Words(
            f"{_many(proof.ranks, 'process', 'processes')}; ", f"{proof.ranks} 个进程；"
        )
    return Words(
        f"{command}: the original on the {proof.original}, the port on a {proof.ported} "
        f"({processes.en}{seconds})",
        f"{command}：原脚本在 {proof.original} 上，迁移后在模拟 NPU 上（{processes.zh}{seconds}）",
    )
