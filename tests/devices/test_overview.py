from jumar.devices.overview import overview
from jumar.spec.devices import Card, CardProcess, DeviceKind
from jumar.spec.records import CardUse


def test_cards_and_holders_come_together():
    mine = CardProcess(10, "python", user="ann", job_id="abcdefghij")
    other = CardProcess(11, "python", user="bob")
    cards = (
        Card(DeviceKind.NPU, 3, "910B4", health="OK", memory_used_mb=5, processes=(mine, other)),
    )
    uses = (
        CardUse(kind="npu", id=3, job_id="abcdefghij", job_name="digits", user="ann", since=1.0),
        CardUse(kind="cpu", id=0, name="cpu slot"),
    )
    held, slot = overview(cards, uses)
    assert (held.name, held.health, held.job_name, held.user) == ("910B4", "OK", "digits", "ann")
    assert [(p.pid, p.foreign) for p in held.processes] == [(10, False), (11, True)]
    assert (slot.kind, slot.name, slot.is_taken) == ("cpu", "cpu slot", False)


def test_a_process_that_cannot_be_seen_is_not_called_foreign_on_a_held_card():
    card = Card(DeviceKind.NPU, 0, processes=(CardProcess(10),))
    (held,) = overview((card,), (CardUse(kind="npu", id=0, job_id="abcdefghij"),))
    (free,) = overview((card,), ())
    assert not held.processes[0].foreign
    assert free.processes[0].foreign
    assert free.is_taken
