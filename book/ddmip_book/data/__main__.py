"""``python -m ddmip_book.data download`` and ``python -m ddmip_book.data status``."""

import argparse
import sys

from .dataset import DataError
from .files import cache_dir, download, status


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, optional
        The arguments; by default those of the process.

    Returns
    -------
    int
        The exit status: 0 for success, 1 for a failed download or a damaged file.
    """
    parser = argparse.ArgumentParser(
        prog="python -m ddmip_book.data", description="The benchmark data files."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("download", help="fetch both files into the cache and check their sha256")
    commands.add_parser("status", help="print which source the loaders would use now")
    command = parser.parse_args(arguments).command
    # requests' exceptions are OSErrors; pooch reports a wrong checksum as a ValueError
    try:
        if command == "download":
            for path in download():
                print(f"{path}: sha256 verified")
        else:
            print(status())
    except (DataError, ImportError) as problem:
        print(problem, file=sys.stderr)
        return 1
    except (OSError, ValueError) as problem:
        print(
            f"Download failed: {problem}\nNo partial file was kept in {cache_dir()}. Check the"
            " network and try again, or put the files into a folder by hand and set DDMIP_DATA_DIR"
            " to it.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
