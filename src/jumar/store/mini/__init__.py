"""Mini data sets: a few samples of each class, with labels that still match.

`layouts.py` lets each layout take what it understands of a folder (`binaries`, `pickles`, `tfrecord`,
`documents` with `tables`) and cuts the rest by folder; `samples.py` knows which files belong together,
`choice.py` which few to keep; `make.py` writes them."""
