"""The words all rooms share. Pure data: no files, no network, no clock."""
