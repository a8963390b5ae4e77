"""What `python FILE` runs where FILE is an archive or a folder with the launcher in it: their `__main__`."""

import sys

if __name__ == "__main__":
    if sys.version_info < (3, 7):  # noqa: UP036
        found = ".".join(map(str, sys.version_info[:2]))
        sys.stderr.write("error: Python 3.7 or later is needed, this is " + found + "\n")
        sys.stderr.write("hint: name a newer one, such as: python3.9 jumar-launch.pyz\n")
        sys.exit(2)

    from jumar.launch.__main__ import main

    sys.exit(main())
