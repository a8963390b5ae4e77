"""jumar takes training code up to Ascend NPUs, on whatever machine a lab has."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from jumar.client import Client
    from jumar.spec.job import JobSpec

__all__ = ["Client", "JobSpec", "__version__"]


def __getattr__(name: str) -> Any:
    # Imported on first use: the command line must start before pydantic and http are loaded.
    if name == "Client":
        from jumar.client import Client

        return Client
    if name == "JobSpec":
        from jumar.spec.job import JobSpec

        return JobSpec
    raise AttributeError(f"module 'jumar' has no attribute {name!r}")
