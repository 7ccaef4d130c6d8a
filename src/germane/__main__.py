"""Entry point of `python -m germane`."""

from germane.cli import main

if __name__ == "__main__":
    main()
