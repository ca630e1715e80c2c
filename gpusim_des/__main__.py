"""``python -m gpusim_des`` is ``gpusim-des``."""

import os
import sys


def main() -> int:
    """Run the command line; Ctrl-C while it is still being loaded ends it with a line, as it does later."""
    try:
        from gpusim_des import cli  # noqa: PLC0415 - loading takes a moment, in which Ctrl-C may come

        return cli.main()
    except KeyboardInterrupt:
        os.write(2, b"gpusim-des: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
