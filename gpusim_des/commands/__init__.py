"""Commands of ``gpusim-des``, a file each; they import what they need when they run, so that ``--help`` is quick."""
