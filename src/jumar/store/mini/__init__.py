"""Mini data sets: a few files of each class, with labels that still match.

One module a layout; `make.py` finds out which layout a folder has. What it does not understand it
cuts by folder; large single files (weights and the like) are kept whole."""
