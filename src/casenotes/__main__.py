"""`python -m casenotes` is the command `casenotes`."""

from casenotes.cli.app import main

if __name__ == "__main__":
    main()
