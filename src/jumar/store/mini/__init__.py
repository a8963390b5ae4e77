"""Mini data sets: a few samples of each class, with labels that still match.

`layouts.py` lets each layout take what it understands of a folder (`tree.py`) and cuts the rest by folder:

- files that are sequences of records (`records`): `columns` (Parquet, Arrow), `lines` (JSON, CSV), `tfrecord`,
  `megatron`, `webtar`
- arrays that belong together (`arrays`): `npy`, `hdf5`, `matlab`
- images that documents describe (`documents` with `tables`, `matlab`); `samples` knows what belongs together
- `binaries` and `pickles` (MNIST, CIFAR), `keyvalue` (LMDB), `mindrecord`

`choice.py` says which few to keep, `make.py` writes them."""
