"""Check built files before they are published: one wheel and one sdist, the same name and version, complete metadata.

    scripts/check_release.py DIST [TAG]

TAG, as `v1.2.0`, must be the version, and CHANGELOG.md must have a heading for it. Prints what was checked; exit code 1 with every fault.
"""

from __future__ import annotations

import email
import sys
import tarfile
import zipfile
from pathlib import Path

NAME = "germane"
NEEDED = (
    "Summary",
    "Requires-Python",
    "License-Expression",
    "Description-Content-Type",
    "Classifier",
    "Keywords",
)
ROOT = Path(__file__).parents[1]


def faults(dist: Path, tag: str) -> list[str]:
    wheels, sources = sorted(dist.glob("*.whl")), sorted(dist.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sources) != 1:
        return [f"{dist} holds {len(wheels)} wheels and {len(sources)} sdists: one of each is published"]
    with zipfile.ZipFile(wheels[0]) as wheel:
        names = wheel.namelist()
        metadata = email.message_from_bytes(
            wheel.read(next(n for n in names if n.endswith(".dist-info/METADATA")))
        )
    found = [f"the metadata have no {name}" for name in NEEDED if not metadata[name]]
    name, version = metadata["Name"], metadata["Version"]
    if name != NAME:
        found.append(f"the name is {name}, not {NAME}")
    if not str(metadata.get_payload()).strip():
        found.append("the metadata have no description: README.md is missing")
    if "germane/py.typed" not in names:
        found.append("the wheel has no py.typed: its types are not used")
    kept = ("tests/", "benchmarks/")
    found += [f"the wheel holds {part}" for part in kept if any(one.startswith(part) for one in names)]
    with tarfile.open(sources[0]) as source:
        inside = {one.split("/", 1)[-1] for one in source.getnames()}
    found += [
        f"the sdist has no {one}"
        for one in ("LICENSE", "README.md", "pyproject.toml", "CHANGELOG.md")
        if one not in inside
    ]
    if sources[0].name != f"{NAME}-{version}.tar.gz":
        found.append(f"the sdist is {sources[0].name}, the wheel's version {version}")
    if tag and tag != f"v{version}":
        found.append(f"the tag is {tag}, the version {version}: change src/germane/version.py, or the tag")
    if tag and f"## {version}" not in (ROOT / "CHANGELOG.md").read_text("utf-8"):
        found.append(f"CHANGELOG.md has no heading `## {version}`")
    return found


def main(dist: str, tag: str = "") -> int:
    problems = faults(Path(dist), tag)
    for problem in problems:
        print(f"check_release: {problem}", file=sys.stderr)
    if not problems:
        print("the wheel and the sdist can be published")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
