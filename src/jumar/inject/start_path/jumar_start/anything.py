"""An object that takes whatever is done with it: for what a stand-in has no use for, such as images."""

from typing import Any, Iterator


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
