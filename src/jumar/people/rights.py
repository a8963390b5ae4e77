"""With what somebody has asked, in a form that can be kept: whether it is still good is asked again later."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from jumar.people.unix import Peer


@dataclass(frozen=True, slots=True)
class Right:
    """A token, by its digest, or who the kernel says is calling."""

    token: str = ""
    peer: Peer | None = None

    def as_json(self) -> dict[str, object]:
        """For a file: no secret is in it."""
        return {"token": self.token} if self.peer is None else {"peer": asdict(self.peer)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """What `as_json` gave; KeyError, TypeError."""
        return cls(peer=Peer(**values["peer"])) if "peer" in values else cls(str(values["token"]))
