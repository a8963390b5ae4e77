"""Where lines of Chinese help end."""

from hypothesis import given
from hypothesis import strategies as st

from jumar.cli.filling import filled
from jumar.cli.output import columns_of


def test_no_word_option_or_bracket_is_cut() -> None:
    text = (
        "每段从上一个检查点继续；auto：直到完成。先激活 conda 环境，“module load ...”。[默认：100]"
    )
    for width in range(14, 90):
        lines = filled(text, width)
        assert all(columns_of(line) <= width for line in lines)
        for whole in ("auto", "conda", "module", "[默认：100]"):
            assert sum(whole in line for line in lines) == 1, (whole, width)
        assert not any(line.startswith(tuple("；：，。”、）")) for line in lines), width


@given(st.text("中文，。（）“”[]ab -\n", max_size=60), st.integers(2, 30))
def test_nothing_is_lost(text: str, width: int) -> None:
    assert "".join("".join(filled(text, width)).split()) == "".join(text.split())
