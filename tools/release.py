"""Whether a tag may be released: `python -m tools.release TAG`.

The tag has to be the version of pyproject.toml with a "v" before it, the changelog has to describe
that version and no longer call it unreleased, and the package has to lead to the project's address.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from typing import Any

from tools.address import config, repository
from tools.notebooks import ROOT
from tools.write_address import project_urls


def problems(
    tag: str, project: dict[str, Any], changelog: str, settings: dict[str, Any]
) -> list[str]:
    """What stands against releasing this tag, each with its remedy; nothing if it may be
    released.
    """
    found = []
    version = project["version"]
    if tag != f"v{version}":
        found.append(
            f"the tag is {tag}, the version {version}: name the tag v{version}, or set the version"
        )
    section = re.search(rf"^## {re.escape(version)}\b.*$", changelog, re.MULTILINE)
    if section is None:
        found.append(f"CHANGELOG.md has no section {version}: write it")
    elif "unreleased" in section[0].lower():
        found.append(f"CHANGELOG.md calls {version} unreleased: write the day of the release there")
    if not repository(settings):
        found.append("the project has no address: set repository: url in _config.yml")
    if project.get("urls", {}) != project_urls(settings):
        found.append("[project.urls] is out of date: python -m tools.write_address")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Check whether a tag may be released.")
    parser.add_argument("tag")
    arguments = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = problems(arguments.tag, project, (ROOT / "CHANGELOG.md").read_text(), config())
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
