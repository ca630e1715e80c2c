"""``gpusim-des calibrate``: a GPU model from the measurements of the kit in ``experiments/hardware``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from gpusim_des.errors import SimError


def add_calibrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "calibrate",
        help="make a GPU model from measurements of your GPU",
        description="Makes a GPU model from the measured-micro.json of the kit in experiments/hardware, and says which "
        "parameter came from which measurement. What was not measured stays as it is in the base.",
    )
    parser.add_argument("measured", type=Path, help="the kit's measured-micro.json")
    parser.add_argument("--base", required=True, help="GPU model of the same compute capability: a name or a TOML file")
    parser.add_argument("-o", "--out", type=Path, required=True, help="file to write, ending in .toml")
    parser.add_argument("--json", action="store_true", help="print the parameters as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; errors are told by `gpusim_des.cli.main`."""
    from gpusim_des.gpu import load_gpu  # noqa: PLC0415 - `gpusim-des --help` need not load NumPy
    from gpusim_des.silicon.calibrate import calibrate  # noqa: PLC0415
    from gpusim_des.silicon.kit import read_kit  # noqa: PLC0415
    from gpusim_des.silicon.model_file import base_path, write_model  # noqa: PLC0415

    if options.out.suffix != ".toml":
        raise SimError(f"--out {options.out}: a model's file ends in .toml")
    if not options.out.parent.is_dir():
        raise SimError(f"--out {options.out}: there is no folder {options.out.parent}; create it first")
    path, base = base_path(options.base), load_gpu(options.base)
    measured = read_kit(options.measured)
    taken = calibrate(measured, base)
    (device,) = measured.rows("device_properties")
    made = write_model(options.out, path, taken, f"{device['name']} as measured", options.measured.name)
    if options.json:
        rows = [{"parameter": t.label, "value": t.value, "source": t.source} for t in taken]
        print(json.dumps({"file": str(options.out), "title": made.title, "parameters": rows}, indent=1))
        return 0
    wide = [max(len(str(text)) for text in column) for column in zip(*((t.label, t.value) for t in taken), strict=True)]
    for t in taken:
        print(f"{t.label:<{wide[0]}}  {t.value!s:>{wide[1]}}  {t.source}")
    print(f"\nwritten: {options.out} ({len(taken)} parameters measured, the rest as in {base.name})")
    return 0
