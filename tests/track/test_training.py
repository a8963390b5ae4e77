import math

from hypothesis import given
from hypothesis import strategies as st

from jumar.track.training import Training

# Numbers of every kind, also those that Python does not read: "1.2.3", "٣", a thousand digits.
NUMBERS = st.text("0123456789.-+enaif٣", max_size=8) | st.integers(0, 10**400).map(str)
LINES = (
    st.text()
    | st.tuples(NUMBERS, NUMBERS, NUMBERS).map("step {0[0]}/{0[1]} loss {0[2]}".format)
    | st.tuples(NUMBERS, NUMBERS).map("epoch {0[0]} accuracy {0[1]}".format)
)


def test_training_is_read_from_lines_that_come_in_pieces() -> None:
    training = Training()
    text = "12 digits\nstep 10/20 loss 1.5000\nstep 20/20 loss 0.2500\nepoch 1 accuracy 0.9876\n"
    lines: list[str] = []
    for character in text:
        lines += training.feed(character)
    assert lines == text.splitlines()
    assert (training.step, training.steps) == (20, 20)
    assert training.losses == [1.5, 0.25]
    assert training.accuracy == 0.9876


@given(st.lists(LINES), st.data())
def test_odd_lines_do_no_harm_however_they_are_cut(lines: list[str], data: st.DataObject) -> None:
    text = "".join(f"{line}\n" for line in lines)
    cut = data.draw(st.integers(0, len(text)))
    training, whole = Training(), Training()
    read = training.feed(text[:cut]) + training.feed(text[cut:])
    assert read == whole.feed(text) == text.split("\n")[:-1]
    assert training == whole
    assert all(map(math.isfinite, training.losses))
