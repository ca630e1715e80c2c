"""Run the kernels of this folder in Numba's own simulator: ``python run_in_numba.py results.npz module …``."""

import os
import sys
from importlib import import_module
from pathlib import Path

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # before Numba is imported

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    results = {}
    for name in sys.argv[2:]:
        results.update({f"{name}.{key}": value for key, value in import_module(name).run().items()})
    np.savez(sys.argv[1], **results)
