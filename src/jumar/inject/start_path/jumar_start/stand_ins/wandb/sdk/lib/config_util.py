"""The error that transformers catches."""


class ConfigError(Exception):
    """Never raised here."""
