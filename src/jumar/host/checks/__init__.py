"""The doctor's checks, one file per family. A check changes nothing."""
