"""What stand-ins for trackers are made of: an object that takes whatever is done with it (for what they have no
use for, such as images), a configuration, a run."""

from typing import Any, Iterator, Optional

from jumar_start.beside import quietly
from jumar_start.run_notes import RunNotes


class Anything:
    """Called, asked for names, iterated or entered, it is itself or nothing."""

    def __init__(self, *_args: Any, **_named: Any) -> None:
        """Whatever is given."""

    def __call__(self, *_args: Any, **_named: Any) -> "Anything":
        return self

    def __getattr__(self, name: str) -> "Anything":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, _key: Any) -> "Anything":
        return self

    def __setitem__(self, _key: Any, _value: Any) -> None:
        return None

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __enter__(self) -> "Anything":
        return self

    def __exit__(self, *_error: Any) -> None:
        return None


class Settings(dict):  # type: ignore[type-arg]
    """A configuration: a dictionary whose entries are attributes too, noted as parameters."""

    def __init__(self, note: Any) -> None:
        super().__init__()
        object.__setattr__(self, "_note", note)

    def __setitem__(self, name: Any, value: Any) -> None:
        super().__setitem__(name, value)
        self._note(name, value)

    __setattr__ = __setitem__

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def update(self, given: Any = None, allow_val_change: Any = None, **named: Any) -> None:
        """With a dictionary, or an object that has its values as attributes."""
        values = given if isinstance(given, dict) else dict(getattr(given, "__dict__", given or {}))
        for name, value in {**values, **named}.items():
            self[name] = value


def named(name: str) -> Any:
    """What a stand-in has under a name that it does not know. Classes, so that `isinstance` takes them."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Anything if name[:1].isupper() else Anything()


class TrackedRun:
    """One run of a tracker that is not installed; what it is not asked to note is taken and forgotten."""

    def __init__(self, tracker: str, own_id: str, name: Optional[str], off: bool) -> None:
        self.id = own_id
        self.name = name or own_id
        self._notes = None if off else RunNotes(f"{tracker}-{own_id}", self.name)
        self.config = Settings(self._note_parameter)

    def _note_parameter(self, name: Any, value: Any) -> None:
        if self._notes is not None:
            quietly(self._notes.parameter)(name, value)

    def finish(self, *_: Any, **__: Any) -> None:
        """All is written already."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.finish()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()
