"""Prints the first rows of a Parquet file as JSON. Run as a program of its own with limits: the file was
pushed by anybody, and what reads it is a large library."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
import json
import sys

_ROWS = 20
_MOST_CELL = 200


def main(path: str) -> int:
    """0, or 3 where pyarrow is missing."""
    try:
        from pyarrow import parquet
    except ImportError:
        return 3
    file = parquet.ParquetFile(path)
    columns = [str(name) for name in file.schema_arrow.names]
    rows: list[list[str]] = []
    for batch in file.iter_batches(batch_size=_ROWS):
        for row in batch.to_pylist():
            rows.append([str(row[name])[:_MOST_CELL] for name in columns])
        break
    print(json.dumps({"columns": columns, "rows": rows, "count": file.metadata.num_rows}))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
