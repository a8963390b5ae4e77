"""What can go wrong with a store, beyond the errors that all rooms share."""

from jumar.errors import JumarError


class StoreAway(JumarError):
    """The store does not answer, broke off or is overloaded; trying again may help."""

    status = 503


class Damaged(JumarError):
    """What arrived is not what was sent: size or checksum differ."""

    status = 502


class BadAnswer(JumarError):
    """The store answered what no S3 server may; asking again does not help."""

    status = 502


class TransferFailed(JumarError):
    """Some of the files could not be copied; the others were."""

    status = 502
