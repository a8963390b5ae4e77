"""A folder for PYTHONPATH: `moxing`, and the S3 client below it. Standard library, Python 3.7+."""
