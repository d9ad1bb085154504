"""`python -m planctl`: the same as the command `planctl`."""

import sys

from planctl.cli import main

if __name__ == '__main__':
    sys.exit(main())
