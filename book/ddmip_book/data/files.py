"""Locations of the published files: a folder of the user, the download cache, or none."""

import hashlib
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

from .dataset import DataError

DOWNLOAD = "`python -m ddmip_book.data download`"
"""The command that fetches the files."""


@dataclass(frozen=True)
class DataFile:
    """One published file.

    Attributes
    ----------
    name
        The file's name.
    sha256
        Its checksum.
    url
        Public address.
    """

    name: str
    sha256: str
    url: str


FILES: dict[str, DataFile] = {
    "water": DataFile(
        "water_potability.csv",
        "904004bde729bfe3d2e195f46343bceead09e32a0eb95bb8184e7e20e029b2bf",
        "https://raw.githubusercontent.com/MainakRepositor/Datasets/master/water_potability.csv",
    ),
    "trees": DataFile(
        "tree_survivability.csv",
        "7d252f90654c7bb31085a16acf19bb48aa8dcaa09cf6fa868870be96406d3d87",
        "https://raw.githubusercontent.com/Opt-Mucca/PySCIPOpt-ML/"
        "5d195e1f78a1a0f1a30f66b5b6a4e6cc936b1733/tests/data/tree_survivability.csv",
    ),
}
"""The published files."""


def cache_dir() -> Path:
    """Return the folder for downloads and trained networks.

    Returns
    -------
    pathlib.Path
        The environment variable ``DDMIP_CACHE_DIR``, else a folder in the user's cache folder.

    Raises
    ------
    DataError
        If ``DDMIP_CACHE_DIR`` names the home folder of an unknown user.

    Examples
    --------
    >>> import os, unittest.mock
    >>> with unittest.mock.patch.dict(os.environ, DDMIP_CACHE_DIR="somewhere"):
    ...     cache_dir().name
    'somewhere'
    """
    folder = _folder("DDMIP_CACHE_DIR")
    if folder is not None:
        return folder
    if sys.platform == "darwin":
        caches = "~/Library/Caches"
    else:
        caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "ddmip"


def _folder(variable: str) -> Path | None:
    """The folder that an environment variable names, if it is set."""
    name = os.environ.get(variable)
    if not name:
        return None
    try:
        return Path(name).expanduser()
    except RuntimeError as problem:
        raise DataError(
            f"{variable}={name}: no user has that home folder; write the path in full."
        ) from problem


def sha256_of(path: Path) -> str:
    """Return the sha256 checksum of a file.

    Parameters
    ----------
    path : pathlib.Path
        The file.

    Returns
    -------
    str
        Hexadecimal digits.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def locate(key: str) -> Path | None:
    """Return the published file to read, without access to the network.

    Parameters
    ----------
    key : {"water", "trees"}
        The data set.

    Returns
    -------
    pathlib.Path or None
        The file, or None where the stand-in is used.

    Raises
    ------
    DataError
        If ``DDMIP_DATA_DIR`` names a folder without the file.
    """
    file = FILES[key]
    folder = _folder("DDMIP_DATA_DIR")
    if folder is not None:
        path = folder / file.name
        if not path.is_file():
            raise DataError(
                f"{path} does not exist, but DDMIP_DATA_DIR names that folder. Put {file.name}"
                f" there (from {file.url}), or unset DDMIP_DATA_DIR to use the download cache or"
                " the synthetic stand-in."
            )
        return path
    path = cache_dir() / file.name
    if not path.is_file():
        return None
    if sha256_of(path) != file.sha256:
        warnings.warn(
            f"{path} is damaged (wrong checksum) and is not used; the synthetic stand-in takes its"
            f" place. Run {DOWNLOAD} to fetch it again.",
            stacklevel=3,
        )
        return None
    return path


def download() -> list[Path]:
    """Fetch both files into the cache and check their sha256.

    A file appears in the cache only after its checksum has been verified.

    Returns
    -------
    list of pathlib.Path
        The files.

    Raises
    ------
    OSError
        If the network fails.
    ValueError
        If a checksum is wrong.
    """
    import pooch  # slow to import, and needed here alone

    return [
        Path(pooch.retrieve(file.url, f"sha256:{file.sha256}", fname=file.name, path=cache_dir()))
        for file in FILES.values()
    ]


def status() -> str:
    """Describe which source a loader would use now.

    Returns
    -------
    str
        One line for each data set.

    Raises
    ------
    DataError
        If ``DDMIP_DATA_DIR`` names a folder without a file.
    """
    lines = []
    for key, file in FILES.items():
        path = locate(key)
        if path is None:
            lines.append(f"{key}: synthetic stand-in ({DOWNLOAD} fetches the real file)")
        elif sha256_of(path) == file.sha256:
            lines.append(f"{key}: real data, {path}, sha256 {file.sha256[:8]} verified")
        else:
            lines.append(f"{key}: {path} has a wrong checksum and will be refused")
    return "\n".join(lines)
