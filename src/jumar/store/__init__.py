"""One URL for every byte: `obs://bucket/key`, `s3://bucket/key`, `file:///path`, plain paths.

`open_place` turns a URL into a store and a key; `transfer` copies any side to any side."""
