"""`python -m minigrpo` is `minigrpo`."""

import sys

from minigrpo.cli import main

if __name__ == "__main__":
    sys.exit(main())
