"""Resume of trainings whose loop belongs to a library: hooks that wait until it is imported.

Every Python of every job runs this first, so it imports nothing that `site` has not imported already."""

import sys

_HOOKS = {
    "torch.serialization": "torch_save",
    "transformers.trainer": "trainer_hooks",
    "lightning.pytorch.trainer.trainer": "lightning_hooks",
    "pytorch_lightning.trainer.trainer": "lightning_hooks",
}


class _Waiting:
    """Stands in front of the finders; what it takes to hook is imported when one of them is needed."""

    def __init__(self, hooks: "dict[str, str]") -> None:
        self._hooks = dict(hooks)
        self._looking = set("")

    def find_spec(self, fullname, path, target=None):  # type: ignore[no-untyped-def]
        """The module's own spec, with the hook behind it, where there is one. Libraries ask whether others
        are there without importing them: the hook waits until one is executed."""
        if fullname not in self._hooks or fullname in self._looking:
            return None
        import importlib

        from jumar_start.after_import import followed

        def then() -> None:
            hook = self._hooks.pop(fullname, None)
            if hook is not None:
                importlib.import_module("jumar_start." + hook).install(sys.modules[fullname])

        self._looking.add(fullname)
        try:
            return followed(fullname, then)
        finally:
            self._looking.discard(fullname)


def wait_for(hooks: "dict[str, str]") -> None:
    """Have `install` of these modules of ours called, by the names of those that are waited for."""
    sys.meta_path.insert(0, _Waiting(hooks))


def install() -> None:
    """Wait for the libraries."""
    wait_for(_HOOKS)
