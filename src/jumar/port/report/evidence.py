"""What the templates about a proof and a trial on simulated NPUs say."""

from jumar.port.records import Words
from jumar.port.report import proof_text
from jumar.port.trial_report import EventKind

WORDS: dict[str, object] = {
    "proof_text": proof_text,
    "event_kinds": {
        EventKind.REFUSED: Words("a real NPU would refuse", "真实 NPU 会拒绝"),
        EventKind.HOST_OPERATOR: Words("no NPU kernel: runs on the CPU", "无 NPU 算子，回退到 CPU"),
        EventKind.COPY_TO_DEVICE: Words("copies to the device", "主机到设备拷贝"),
        EventKind.COPY_TO_HOST: Words("copies to the host", "设备到主机拷贝"),
        EventKind.COPY_BETWEEN_DEVICES: Words("copies between devices", "设备间拷贝"),
        EventKind.WAIT: Words("the host waits for the device", "主机等待设备"),
    },
    "grave_events": (EventKind.REFUSED, EventKind.HOST_OPERATOR),
    "most_rows": 40,
}
"""By the names that the templates use."""
