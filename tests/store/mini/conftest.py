"""The store of a laptop, for data sets."""

import pytest

from jumar.store.credentials import StoreConfig


@pytest.fixture
def config(folder_config: StoreConfig) -> StoreConfig:
    return folder_config
