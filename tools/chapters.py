"""Numbers of chapters follow from _toc.yml: put a chapter in, move it or take it out there, then

    python -m tools.chapters                rename the files, and put right the links between pages
    and their numbers python -m tools.chapters rename OLD NEW give a chapter another name as well
    python -m tools.chapters --check        change nothing; say what does not fit

No key has to change, since keys are names without numbers. Addresses that pages lose go to
book/redirects.yml.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from ddmip_book.yaml_file import read_yaml
from tools.chapter_keys import LINKING, files, fresh, problems
from tools.contents import Contents, ContentsError, listed, name_of
from tools.notebooks import ROOT
from tools.redirects import FILE, RedirectError, former, targets

SUFFIXES = (".ipynb", ".md")
ENTRY = re.compile(r"^(\s*(?:- )?(?:file|root): )(\S+)", re.MULTILINE)


def move(root: Path, moves: dict[str, str]) -> None:
    """Give pages other files, in the folder and in _toc.yml; both sides as _toc.yml writes them."""
    sources = {
        root / f"{old}{suffix}": root / f"{new}{suffix}"
        for old, new in moves.items()
        for suffix in SUFFIXES
    }
    sources = {old: new for old, new in sources.items() if old.exists()}
    if taken := [new for new in sources.values() if new.exists()]:
        raise ContentsError(
            f"{taken[0]} exists and _toc.yml does not list it. To fix this, remove or rename it."
        )
    for old, new in sources.items():
        old.rename(new)
    toc = root / "_toc.yml"
    toc.write_text(
        ENTRY.sub(lambda entry: entry[1] + moves.get(entry[2], entry[2]), toc.read_text())
    )


def remember(contents: Contents, addresses: dict[str, str]) -> None:
    """Put these addresses into book/redirects.yml; those that a page has now are no longer needed
    there.
    """
    own = {address for page in contents.pages for address in (page.address, page.lasting_address)}
    kept = {
        address: name
        for address, name in {**former(contents.root), **addresses}.items()
        if address not in own
    }
    file = contents.root / FILE
    comment = "".join(
        line for line in file.read_text().splitlines(keepends=True) if line.startswith("#")
    )
    file.write_text(
        comment + "".join(f"{address}: {name}\n" for address, name in sorted(kept.items()))
    )


def refresh_links(contents: Contents) -> None:
    for path in files(contents.root, LINKING):
        text = path.read_text()
        if (wanted := fresh(text, contents, former(contents.root))) != text:
            path.write_text(wanted)


def renumber(root: Path) -> dict[str, str]:
    """Let file names, links and redirects follow _toc.yml; returns what was renamed."""
    pages = Contents(root, tuple(listed(read_yaml(root / "_toc.yml"))))
    pages.refuse_twins()
    moves = {page.file: page.due for page in pages.pages if page.file != page.due}
    move(root, moves)
    contents = Contents.read(root)
    remember(contents, {f"{old}.html": name_of(old) for old in moves})
    refresh_links(contents)
    return moves


def rename(root: Path, old: str, new: str) -> dict[str, str]:
    """Give a page another name; its former addresses lead to it. Keys that still have the old name
    are left to you.
    """
    contents = Contents.read(root)
    page = contents[old]
    if new in contents or not re.fullmatch(r"[a-z]\w*", new):
        raise ContentsError(
            f"{new!r} is taken, or no name of small letters, digits and _. To fix this, take"
            " another."
        )
    moves = {page.file: page.file.removesuffix(old) + new}
    move(root, moves)
    before = {address: new for address, name in former(root).items() if name == old}
    remember(Contents.read(root), {**before, page.address: new, page.lasting_address: new})
    refresh_links(Contents.read(root))
    return moves


def main(argv: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        prog="python -m tools.chapters",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail where something does not fit"
    )
    commands = parser.add_subparsers(dest="command")
    command = commands.add_parser("rename", help="give a chapter another name")
    command.add_argument("old")
    command.add_argument("new")
    given = parser.parse_args(argv)
    try:
        if not given.check:
            moves = rename(root, given.old, given.new) if given.command else renumber(root)
            print(
                "".join(f"{old} -> {new}\n" for old, new in moves.items())
                or "all files have their numbers\n",
                end="",
            )
        contents = Contents.read(root)
        targets(contents)
        left = problems(contents, former(root))
    except (ContentsError, RedirectError) as error:
        left = [str(error)]
    print("\n".join(left), file=sys.stderr, end="\n" if left else "")
    return int(bool(left))


if __name__ == "__main__":
    raise SystemExit(main())
