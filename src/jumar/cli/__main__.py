"""`python -m jumar.cli`: what runs jumar where only a Python and a module can be named."""

from jumar.cli import main

if __name__ == "__main__":
    main()
