"""``python -m gpusim_des`` is ``gpusim-des``."""

import sys

from gpusim_des.cli import main

sys.exit(main())
