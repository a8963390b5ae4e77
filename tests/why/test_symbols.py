"""Names of C++ are told as people write them."""

import pytest

from jumar.why.symbols import readable


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN2at4_ops5empty4callEv", "at::_ops::empty::call"),
        ("_ZNK3c1010TensorImpl5sizesEv", "c10::TensorImpl::sizes"),
        ("_Z8forward1N2at6TensorE", "forward1"),
        ("_ZTIN3c106StorageE", "_ZTIN3c106StorageE"),
        ("cudnnCreate", "cudnnCreate"),
    ],
)
def test_a_mangled_name_is_shortened(symbol: str, name: str) -> None:
    assert readable(symbol) == name
