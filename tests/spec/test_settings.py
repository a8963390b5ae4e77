"""What is said of a wrong setting, and what works all the same."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from jumar.cli import doctor, down
from jumar.errors import BadInput
from jumar.settings import load


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("\nprot = 7420\n", "config.toml:2: unknown setting 'prot'", "did you mean: port"),
        ("[kubernets]\na = 1\n", "config.toml:1: unknown setting 'kubernets'", "kubernetes"),
        ("xyzzy = 1\n", "config.toml:1: unknown setting 'xyzzy'", "known: cpu_slots, "),
        ("# port = 1\nport = 'http'\n", "config.toml:2: port: 'http' is not a whole number", ""),
        ("port =\n", "config.toml is not TOML: Invalid value (at line 1", ""),
    ],
)
def test_a_wrong_setting_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str, hint: str
) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(BadInput) as caught:
        load({"JUMAR_HOME": str(tmp_path)})
    assert f"{tmp_path}/{words}" in caught.value.message
    assert hint in (caught.value.hint or "")
    monkeypatch.setenv("JUMAR_HOME", str(tmp_path))
    stopped = CliRunner().invoke(down.command, standalone_mode=False)
    assert (stopped.exception, stopped.output) == (
        None,
        f"no server is running in {tmp_path}\n",
    ), "a server can be stopped"
    seen = CliRunner().invoke(doctor.command, ["--only", "cpus"], standalone_mode=False)
    assert (seen.exception, seen.return_value) == (None, 1)
    assert words in seen.output
