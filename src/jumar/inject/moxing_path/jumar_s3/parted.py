"""An upload in parts, wherever its bytes come from: the one way for everybody who sends big objects."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Type

from .answers import Begun
from .checksum import is_md5, parts_in_tag
from .client import S3
from .crew import Crew
from .inside import discard_upload
from .parts import part_count, part_range, tag_of_parts

Send = Callable[[Begun, int, int, int], str]
"""Sends one part, by number, start and length; gives its tag."""


class Notes:
    """What is remembered of an upload, so that a later try can go on with it; here, nothing."""

    keeps = False
    """Whether an upload that fails is left to the next try."""

    def begun(self) -> Optional[Begun]:
        """One that an earlier try has begun with the same bytes."""
        return None

    def write(self, begun: Begun) -> None:
        """Remember it."""

    def forget(self) -> None:
        """It is over."""

    def resumed(self, size: int) -> None:
        """So many bytes need not be sent again."""

    def lost(self) -> None:
        """The server has lost what was sent: all is to be sent again."""


class Terms(NamedTuple):
    """How whoever sends speaks to the server, and what its errors are called there."""

    ask: Callable[[Callable[[], Any]], Any]
    """Makes a request, and again while the server is away; its errors are the caller's."""
    missing: Type[BaseException]
    """Raised by `ask` where the server does not have it."""
    wrong: Type[BaseException]
    """Raised by `ask` where the bytes arrived wrong."""
    damaged: Callable[[], Exception]
    """Such an error, for this object."""
    crew: Crew
    stop: Any = None


class Parted:
    """The upload of one object in parts."""

    def __init__(
        self, s3: S3, place: Tuple[str, str], size: int, terms: Terms, notes: Notes
    ) -> None:
        self._s3 = s3
        self._place = place
        self._size = size
        self._terms = terms
        self._notes = notes

    @property
    def count(self) -> int:
        """How many parts there are; they are numbered from 1."""
        return part_count(self._size)

    def range(self, number: int) -> Tuple[int, int]:
        """Where a part starts, and its length."""
        return part_range(self._size, number)

    def carry(
        self, send: Send, crc32_of_all: Optional[Callable[[], bytes]] = None, check: Any = None
    ) -> None:
        """The whole upload. With `crc32_of_all` the server is asked to check that of all bytes; `check` is
        called when all parts are there, and gives the error if they must not become an object. Once more
        from the start if the server no longer knows it, because another one has taken its place."""
        try:
            self._carry_once(send, crc32_of_all, check)
        except self._terms.missing:
            self._notes.forget()
            self._notes.lost()
            self._carry_once(send, crc32_of_all, check)

    def _carry_once(
        self, send: Send, crc32_of_all: Optional[Callable[[], bytes]], check: Any
    ) -> None:
        begun, etags = self._resumed() or (self._begin(crc32_of_all is not None), {})
        try:
            missing = [number for number in range(1, self.count + 1) if number not in etags]

            def send_one(number: int) -> str:
                start, length = self.range(number)
                tag: str = self._terms.ask(lambda: send(begun, number, start, length))
                # Bytes that only lie in a buffer of this machine say nothing about the rate.
                self._terms.crew.carried(length)
                return tag

            sent = self._terms.crew.each(send_one, missing, self._terms.stop)
            etags.update(zip(missing, sent))
            error: Optional[Exception] = None if check is None else check()
            if error is not None:
                # Parts of two versions may be in it: the next try starts over.
                self.give_up(begun)
                raise error
            crc32 = crc32_of_all() if begun.crc32 and crc32_of_all is not None else None
            self._complete(begun, [etags[number] for number in sorted(etags)], crc32)
        except BaseException:
            if not self._notes.keeps:
                self.give_up(begun)
            raise

    def _begin(self, crc32: bool) -> Begun:
        made: Begun = self._terms.ask(lambda: self._s3.create_upload(*self._place, crc32=crc32))
        try:
            self._notes.write(made)
        except BaseException:
            self.give_up(made)
            raise
        return made

    def _resumed(self) -> Optional[Tuple[Begun, Dict[int, str]]]:
        begun = self._notes.begun()
        if begun is None:
            return None
        upload = begun.id
        try:
            parts = self._terms.ask(lambda: self._s3.parts(*self._place, upload))
        except self._terms.missing:
            return None
        etags = {
            part.number: part.etag for part in parts if part.size == self.range(part.number)[1]
        }
        self._notes.resumed(sum(self.range(number)[1] for number in etags))
        return begun, etags

    def _complete(self, begun: Begun, etags: List[str], crc32: Optional[bytes]) -> None:
        """Complete the object from its parts, and compare its tag with theirs."""
        wanted = ""
        if all(map(is_md5, etags)) and not begun.encrypted:
            wanted = tag_of_parts(list(map(bytes.fromhex, etags)))
        ask, s3, place = self._terms.ask, self._s3, self._place
        try:
            etag: str = ask(lambda: s3.complete_upload(*place, begun.id, etags, crc32))
        except self._terms.missing:
            # It may have been completed before, with only the answer lost. An earlier object may
            # have the same size: only the checksum can tell.
            found = ask(lambda: s3.kept(*place))
            if found.size != self._size or (
                found.etag != wanted and (crc32 is None or found.crc32 != crc32)
            ):
                raise
            etag = found.etag
        except self._terms.wrong:
            # Parts of an earlier try do not match the source: the next try starts over.
            self.give_up(begun)
            raise
        self._notes.forget()
        if wanted and parts_in_tag(etag) and etag != wanted:
            # Not every answer says that the object is encrypted; the one to HEAD does.
            found_tag: str = ask(lambda: s3.head(*place)).etag
            if parts_in_tag(found_tag) and found_tag != wanted:
                raise self._terms.damaged()

    def give_up(self, begun: Begun) -> None:
        """Do not go on with it again, and free its space on the server."""
        self._notes.forget()
        discard_upload(self._s3, self._place, begun.id)
