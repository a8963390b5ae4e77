"""The words of the trial report in the language of the terminal.

Here and not in jumar's tables: the report is written inside the user's own process, which has no jumar."""

import os

_CHINESE = {
    "== trial on simulated NPUs: {chip}, torch_npu {release}, mode {mode}, {steps} optimizer steps": (
        "== 模拟 NPU 试运行：{chip}，torch_npu {release}，模式 {mode}，优化器 {steps} 步"
    ),
    "no NPU kernel, falls back to the CPU": "没有 NPU 算子，回退到 CPU 执行",
    "a real NPU would refuse": "真实 NPU 会拒绝",
    "copies from host to device": "从主机到设备的复制",
    "copies from device to host": "从设备到主机的复制",
    "copies between devices": "设备之间的复制",
    "places where the host waits for the device": "主机等待设备的位置",
    "peak memory": "显存峰值",
    "{title}:": "{title}：",
    "{title} ({size})": "{title}（{size}）",
    "… and {count} more": "……另有 {count} 处",
    "once": "1 次",
    "{count} times": "{count} 次",
    "at least {amount}": "至少 {amount}",
    "{peak} of {limit}": "{peak}（共 {limit}）",
    "operators: {count} kinds; most used: {most}": "算子：{count} 种；最常用：{most}",
    "dtypes: {names}": "数据类型：{names}",
    "found nothing that a real NPU would refuse or run on the CPU": (
        "没有发现真实 NPU 会拒绝或在 CPU 上执行的操作"
    ),
    "the trial report was not written: {error}": "没有写出试运行报告：{error}",
}
_FIRST_WIDE = "\u2e80"


def is_chinese() -> bool:
    """Whether the user's terminal is, as jumar's own commands tell it."""
    chosen = [os.environ.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANG")]
    return next(filter(None, chosen), "").lower().startswith("zh")


def said(text: str, **values: object) -> str:
    """`text` in the language of the terminal, with `values` put in."""
    return (_CHINESE[text] if is_chinese() else text).format(**values)


def padded(text: str, width: int) -> str:
    """`text` and blanks: at least `width` columns, of which a Chinese character takes two."""
    return text + " " * (width - sum(2 if one >= _FIRST_WIDE else 1 for one in text))
