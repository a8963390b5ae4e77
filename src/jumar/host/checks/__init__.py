"""The doctor's checks, one file a family. A check looks; it changes nothing."""
