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

    def find_spec(self, fullname, path, target=None):  # type: ignore[no-untyped-def]
        """The module's own spec, with the hook behind it, where there is one."""
        hook = self._hooks.pop(fullname, None)
        if hook is None:
            return None
        import importlib

        from jumar_start.after_import import followed

        def then() -> None:
            importlib.import_module("jumar_start." + hook).install(sys.modules[fullname])

        return followed(fullname, then)


def wait_for(hooks: "dict[str, str]") -> None:
    """Have `install` of these modules of ours called, by the names of those that are waited for."""
    sys.meta_path.insert(0, _Waiting(hooks))


def install() -> None:
    """Wait for the libraries."""
    wait_for(_HOOKS)
