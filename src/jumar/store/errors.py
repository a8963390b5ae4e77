"""What can go wrong with a store, beyond the errors that all rooms share."""

from jumar.errors import StoreFailed, Unavailable


class StoreAway(Unavailable):
    """The store does not answer, broke off or is overloaded; trying again may help."""


class Damaged(StoreFailed):
    """What arrived is not what was sent: size or checksum differ."""


class BadAnswer(StoreFailed):
    """The store answered what no S3 server may; asking again does not help."""


class TransferFailed(StoreFailed):
    """Some of the files could not be copied; the others were."""
