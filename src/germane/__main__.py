"""`python -m germane` is the command line."""

from germane.cli import main

if __name__ == "__main__":
    main()
