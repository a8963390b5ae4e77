"""A pause of the garbage collector, for work that leaves nothing to collect."""

import gc


class PausedCollection:
    """Neither modules nor syntax trees have cycles worth collecting; the collector would visit them all
    again and again."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        # What is kept is not visited later either, nor at the end of the process.
        gc.freeze()
        if self._was_on:
            gc.enable()
