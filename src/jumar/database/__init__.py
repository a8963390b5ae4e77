"""The tables, and the one writer that changes them."""
