"""`python -m loopbench`."""

from loopbench.cli.main import main

if __name__ == "__main__":
    main()
