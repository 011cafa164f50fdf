"""Clients of Dask clusters."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

REMEDY = "dask.distributed is not installed: pip install 'ddmip-lib[cluster]'."
WAIT = "10s"  # for a scheduler that does not answer
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": 2**30, "MALLOC_MMAP_THRESHOLD_": 2**25}
"""Dask lets its processes give memory back at once (64 KiB), and networks then wait for it half of
their time.
"""


@contextmanager
def cluster_client(
    scheduler: str = "", local: int = 0, ca: str = "", cert: str = "", key: str = ""
) -> Iterator[Any | None]:
    """A client of the scheduler at an address, or of `local` processes here; None where neither is
    given.

    With TLS files only encrypted connections are made, and only to schedulers with a certificate of
    that authority. Tasks and records are pickled: connect to schedulers that you trust, and to no
    others.
    """
    if not scheduler and not local:
        yield None
        return
    try:
        distributed = import_module("distributed")
    except ImportError as error:
        raise ValueError(REMEDY) from error
    files = {"tls_ca_file": ca, "tls_client_cert": cert, "tls_client_key": key}
    given = {name: file for name, file in files.items() if file}
    if given and (len(given) < len(files) or not scheduler):
        raise ValueError(
            "TLS needs all of --tls-ca, --tls-cert and --tls-key, and a scheduler (tls://...) to"
            " talk to."
        )
    security = distributed.Security(require_encryption=True, **given) if given else None
    if not scheduler:
        kept = {name: str(value) for name, value in ALLOCATOR.items()}
        wanted = {
            f"distributed.nanny.pre-spawn-environ.{name}": value
            for name, value in ALLOCATOR.items()
        }
        with (
            import_module("dask").config.set(wanted),
            patch.dict(
                os.environ, kept
            ),  # an earlier cluster of this process has set them otherwise
            distributed.LocalCluster(
                n_workers=local,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.ERROR,
            ) as here,
            distributed.Client(here) as client,
        ):
            yield client
        return
    try:
        client = distributed.Client(scheduler, security=security, timeout=WAIT)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"no scheduler answers at {scheduler}: start one with "
            f"`dask scheduler --dashboard-address 127.0.0.1:8787`. ({error})"
        ) from error
    with client:
        yield client
