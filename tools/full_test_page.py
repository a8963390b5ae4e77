"""The pages of `full_test.py`'s results, docs/reference/full-test.md and its twin in Chinese."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PAGES = {"en": "docs/reference/full-test.md", "zh": "docs/reference/full-test.zh-CN.md"}
PASSED = "passed"
NOT_RUN = "not run"
COMMIT_DIGITS = 12
Command = tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """Commands that must all end with 0, one after the other."""

    name: str
    size: str
    commands: tuple[Command, ...]
    limit_s: float = 2 * 3600


@dataclass(frozen=True)
class Result:
    """How a part ended, and at which commit."""

    outcome: str
    seconds: float
    commit: str
    date: str


_FRAME = {
    "en": """\
# The full test

[中文](full-test.zh-CN.md)

`make test` checks every promise at a small, fixed size. `make test-full` runs the full sizes below, part
by part, and writes this page: the last run of each part, with the commit it ran on. An interrupted run
continues where it stopped; parts that passed are not run again until the code changes. The output of each
part is in `.make/full-test/`.

| part | size | result | seconds | commit | date |
|---|---|---|---|---|---|
""",
    "zh": """\
# 完整测试

[English](full-test.md)

`make test` 以固定的小规模检查每一项承诺。`make test-full` 逐项运行以下完整规模的测试，并写出本页：每一项最近一次的结果和当时的提交。
中断之后从停下的地方继续；已通过的项目在代码变化之前不再运行。每一项的输出在 `.make/full-test/` 中。

| 项目 | 规模 | 结果 | 秒数 | 提交 | 日期 |
|---|---|---|---|---|---|
""",
}
_WORDS_ZH = {
    NOT_RUN: "尚未运行",
    PASSED: "通过",
    "timed out": "超时",
    "failed with": "失败，退出码",
}
_SIZES_ZH = {
    "strict": "全部测试，都不重试",
    "sizes": "`make test` 中以较小规模运行的测试",
    "selftest-sqlite": "12 个用户的 600 个任务，30 次故障以及资源耗尽，sqlite",
    "selftest-postgres": "12 个用户的 600 个任务，30 次故障以及资源耗尽，postgres",
    "why": "1 GB 的日志，10 秒 CPU 时间之内分析完",
    "metrics": "200 MB 的 TensorBoard 记录和 1 GB 的日志变成曲线，分别比其他工具快 10 倍和 3 倍",
    "trackers": "transformers 配合真实的 wandb 和 swanlab，没有账号也没有网络：曲线齐全",
    "pages": "50 个运行中任务的 200 个打开的页面：不超过 300 MB 和一个核，日志不丢行、不重复；首次打开，20 张图表",
    "frameworks": "transformers、accelerate、peft、timm、Lightning 和 DeepSpeed ZeRO-1 至 3 在 strict 模式的模拟 NPU 上：没有操作被拒绝",
    "objects": "100,000 个对象的上传、列举、计数、同步、下载、比对和删除，六种服务器",
    "hub": "1 GiB 的 LFS 文件上传和下载，与 nginx 对比；服务的内存",
    "queue": "列表中 100,000 个任务，队列中 100,000 个任务",
    "schemas": "两套 API 的每个操作各 40 次，登录与未登录，请求符合或几乎符合其描述：没有 5xx",
    "blame": "2 个节点 x 2 个 rank 使用 gloo 的 60 次失败，全部指出正确的 rank 和节点",
    "elastic": "4 个网络命名空间，节点丢失和返回 50 次，绝不会有两组同时运行",
    "slurm": "四个节点的真实 Slurm：300 个任务全程监视、Ray、使用 torch 的分段；与直接使用 sbatch 相比的开销",
    "kubernetes": "真实的控制面和四个各有 8 块 NPU 的节点：引擎约定、故障、100 个任务同时运行；服务自己的镜像",
    "site": "站点上 12 个用户的 600 个任务，服务和 root 程序被杀 20 次",
    "bundle": "带 torch 的离线安装包，安装在没有网络的最小系统中，并在其中运行演示",
    "operators": "OpInfo 全部算子、全部 dtype，99 % 逐位相同",
    "resumed": "200 个由停止、杀死、磁盘写满和残缺检查点组成的随机方案：权重逐位相同",
    "disturbed": "115 个由杀死、重启、抢占和残缺检查点组成的随机方案，在整个平台上运行",
}


def pages(parts: Sequence[Part], results: Mapping[str, Result]) -> Mapping[str, str]:
    """The page of results by its path, in each language."""
    return {
        path: _FRAME[language]
        + "".join(_row(language, part, results.get(part.name)) for part in parts)
        for language, path in PAGES.items()
    }


def read(page: str) -> Mapping[str, Result]:
    """The results on an English page, by part: the page is the only record, so a new clone has it."""
    rows = re.findall(r"^\| (\S+) \| [^|]+ \| ([^|]+) \| (\d+) \| `(\w+)` \| (\S+) \|$", page, re.M)
    return {name: Result(ended, float(s), commit, date) for name, ended, s, commit, date in rows}


def _row(language: str, part: Part, result: Result | None) -> str:
    if result is None:
        told = f"{NOT_RUN} | | |"
    else:
        told = f"{result.outcome} | {result.seconds:.0f} | `{result.commit}` | {result.date}"
    size = part.size
    if language == "zh":
        size = size_zh(part)
        for english, chinese in _WORDS_ZH.items():
            told = told.replace(english, chinese)
    return f"| {part.name} | {size} | {told} |\n"


def size_zh(part: Part) -> str:
    """What the part runs, in Chinese where that is written here."""
    found = re.fullmatch(r"schedules-(\d+)-(\d+)", part.name)
    if found:
        return f"故障方案 {found[1]} 到 {found[2]}，各 40 个任务"
    return _SIZES_ZH.get(part.name, part.size)
