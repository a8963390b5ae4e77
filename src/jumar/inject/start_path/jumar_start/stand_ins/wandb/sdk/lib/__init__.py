"""As far as scripts import it."""
