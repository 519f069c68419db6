"""`python -m franca` is the command `franca`."""

from franca.cli.main import main

if __name__ == "__main__":
    main()
