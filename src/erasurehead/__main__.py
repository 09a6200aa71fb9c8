"""`python -m erasurehead`: the command line without its console script, as where that is not on the PATH."""

from erasurehead.cli import main

if __name__ == "__main__":
    main()
