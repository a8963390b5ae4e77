"""Batches after a resume are those that would have come: also where a data set or collator draws random
numbers, and the library fetches one batch ahead.

Noted are the random numbers before the iterator of an epoch was made, before the last fetch, and when the
checkpoint was written. Without workers, the fetch ahead is repeated with the numbers it had. With workers
the numbers come from the epoch's first ones, so the epoch is fetched again and its first batches dropped."""

from typing import Any, Dict, Optional, Tuple

from jumar_start import randomness

Numbers = Dict[str, Any]


class Notes:
    """Of the loader of one data set, in this process."""

    def __init__(self) -> None:
        self.dataset: Any = None
        self.begin: Optional[Numbers] = None
        self._ahead: Optional[Numbers] = None
        self._begin_with: Optional[Numbers] = None
        self._first_fetch: Optional[Tuple[Numbers, Numbers]] = None
        self._resume: Optional[Dict[str, Any]] = None
        self.is_exact = False
        """Whether the numbers of the loop itself are set here, and not by the library."""

    def taken(self) -> Dict[str, Any]:
        """What a checkpoint needs."""
        return {"begin": self.begin, "ahead": self._ahead, "now": randomness.state()}

    def resume(self, taken: Optional[Dict[str, Any]]) -> None:
        """Go on from what a checkpoint had, if it had anything."""
        self._resume = taken
        self.is_exact = False

    def skipping(self, loader: Any, count: int) -> Any:
        """A loader without its first batches, or None where the library's own will do."""
        taken, self._resume = self._resume, None
        if taken is None or taken["begin"] is None:
            return None
        self._begin_with = taken["begin"]
        if loader.num_workers > 0:
            return _Later(loader, count)
        if taken["ahead"] is not None:
            self._first_fetch = (taken["ahead"], taken["now"])
            self.is_exact = True
        return None

    def on_iterator(self) -> None:
        """Before the iterator of the data set is made."""
        if self._begin_with is not None:
            randomness.restore(self._begin_with)
            self._begin_with = None
        self.begin = randomness.state()
        # Of the epoch before; with workers there are none.
        self._ahead = None

    def fetch(self, fetch: Any, iterator: Any) -> Any:
        """One batch, in this process."""
        if self._first_fetch is None:
            self._ahead = randomness.state()
            return fetch(iterator)
        before, after = self._first_fetch
        self._first_fetch = None
        randomness.restore(before)
        self._ahead = before
        batch = fetch(iterator)
        randomness.restore(after)
        return batch


class _Later:
    """A loader whose first batches are fetched and dropped."""

    def __init__(self, loader: Any, count: int) -> None:
        self._loader = loader
        self._count = count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __iter__(self) -> Any:
        batches = iter(self._loader)
        for _ in range(self._count):
            next(batches)
        return batches


def install(notes: Notes) -> None:
    """Watch torch's loaders for the data set of `notes`."""
    import torch.utils.data.dataloader as loading

    make = loading.DataLoader.__iter__
    single: Any = loading._SingleProcessDataLoaderIter
    fetch = single._next_data

    def make_noted(self: Any) -> Any:
        if notes.dataset is None or self.dataset is not notes.dataset:
            return make(self)
        notes.on_iterator()
        made: Any = make(self)
        made.jumar_notes = notes
        return made

    def fetch_noted(self: Any) -> Any:
        if getattr(self, "jumar_notes", None) is not notes:
            return fetch(self)
        return notes.fetch(fetch, self)

    loading.DataLoader.__iter__ = make_noted
    single._next_data = fetch_noted
