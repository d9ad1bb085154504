"""`python -m planctl`: the same as the command `planctl`."""

from planctl.cli import main

if __name__ == '__main__':
    main()
