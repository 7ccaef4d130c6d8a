"""`python -m benchmarks [NAME...] [--quick] [--alone]`: all benchmarks, or those named; what they need is made by peers.sh."""

from __future__ import annotations

import argparse
import importlib

from benchmarks.running import PEERS

NAMES = (
    "calls",
    "cpu",
    "wall",
    "storm",
    "replay",
    "million",
    "coverage",
    "choosing",
    "stopping",
    "page",
    "rank",
    "shapes",
    "scale",
    "stages",
    "moving",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").split(": ", 1)[1]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="less of everything: do they run?")
    parser.add_argument("--alone", action="store_true", help="germane and the bare loops only, no peers")
    options = parser.parse_args()
    if options.alone:
        print("the peers are left out (--alone)")
    for name in options.names or NAMES:
        if name not in NAMES:
            parser.error(f"no benchmark is named {name!r}: {', '.join(NAMES)}")
        importlib.import_module(f"benchmarks.{name}").main(
            quick=options.quick, peers=() if options.alone else PEERS
        )


if __name__ == "__main__":
    main()
