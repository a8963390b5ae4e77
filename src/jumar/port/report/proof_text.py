"""What a certificate says, in words."""

from collections.abc import Iterator

from jumar.port.proof import Certificate, Difference, Verdict
from jumar.port.records import Words

_HEADS = {
    Verdict.DIFFERS: Words(
        "not proven: the port computes different results", "未通过：迁移后的计算结果不同"
    ),
    Verdict.NOT_DETERMINISTIC: Words(
        "not proven: the original itself gives different numbers in every run",
        "无法证明：原脚本每次运行结果都不同",
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
    Verdict.BOTH_FAILED: Words(
        "not proven: both the original and the port fail",
        "无法证明：原脚本与迁移后的脚本均运行失败",
    ),
}
_ADVICE = {
    Verdict.NOT_DETERMINISTIC: Words(
        "Use fixed random seeds, then try again.",
        "请固定所有随机种子后重试。",
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
    if proof.verdict is not Verdict.PROVEN:
        return _HEADS[proof.verdict]
    losses, parameters = len(proof.losses), proof.parameters
    if proof.bitwise:
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
    failure = proof.failure
    if failure is not None:
        where = f" ({failure.where})" if failure.where else ""
        yield Words(f"{failure.what}{where}", f"{failure.what}{where}")
    if proof.verdict in _ADVICE:
        yield _ADVICE[proof.verdict]


def _difference(title: Words, found: Difference) -> Words:
    where = f" ({found.where})" if found.where else ""
    rank_en = f", rank {found.rank}" if found.rank else ""
    return Words(
        f"{title.en}: {found.what}{rank_en}{where}: {found.original} became {found.ported}.",
        f"{title.zh}：{found.what}{rank_en}{where}：{found.original} 变为 {found.ported}。",
    )


def setting(proof: Certificate) -> Words:
    """What was run where."""
    import shlex

    command = shlex.join(proof.command)
    seconds = f"{proof.seconds[0]:.1f} s, {proof.seconds[1]:.1f} s"
    return Words(
        f"{command}: the original on the {proof.original}, the port on a {proof.ported} "
        f"({_many(proof.ranks, 'process', 'processes')}; {seconds})",
        f"{command}：原脚本在 {proof.original} 上，迁移后在模拟 NPU 上（{proof.ranks} 个进程；{seconds}）",
    )
